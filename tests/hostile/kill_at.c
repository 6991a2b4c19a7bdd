/* Preloaded into a process: kills it before the n-th call that changes something in a directory, or
 * makes calls that need room there fail from the n-th on, as on a full disk.
 *
 * TensorFlow writes checkpoints in C++, where Python can't interrupt it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[4096];
static long fatal_call, full_call, calls;

static void watch(const char *path) {
  snprintf(directory, sizeof directory, "%s", path);
  calls = fatal_call = full_call = 0;
}

/* Counts the changes below a directory from now on; kills the process before change n. */
void kill_at(const char *path, long n) {
  watch(path);
  fatal_call = n;
}

/* Counts the calls that need room below a directory; they fail from call n on. */
void full_at(const char *path, long n) {
  watch(path);
  full_call = n;
}

long calls_so_far(void) { return calls; }

/* Returns whether the call must fail. */
static int count(const char *what, const char *path, int needs_room) {
  if (!directory[0] || !path || !strstr(path, directory) || strstr(path, "events.out")) return 0;
  if (full_call && !needs_room) return 0;
  long number = __sync_add_and_fetch(&calls, 1);
  if (full_call && number >= full_call) {
    errno = ENOSPC;
    return 1;
  }
  if (number != fatal_call) return 0;
  dprintf(2, "killed before %s %s\n", what, path);
  kill(getpid(), SIGKILL);
  pause();
  return 0;
}

static int count_open(const char *what, int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return count(what, path, 1);
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int rename(const char *from, const char *to) {
  count("rename", to, 0);
  return REAL(rename)(from, to);
}

int unlink(const char *path) {
  count("unlink", path, 0);
  return REAL(unlink)(path);
}

int rmdir(const char *path) {
  count("rmdir", path, 0);
  return REAL(rmdir)(path);
}

int mkdir(const char *path, mode_t mode) {
  if (access(path, F_OK) && count("mkdir", path, 1)) return -1;
  return REAL(mkdir)(path, mode);
}

FILE *fopen(const char *path, const char *mode) {
  if (*mode != 'r' && count("fopen", path, 1)) return NULL;
  return REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  if (*mode != 'r' && count("fopen", path, 1)) return NULL;
  return REAL(fopen64)(path, mode);
}

int fclose(FILE *file) {
  int descriptor = fileno(file), failed = 0;
  if (descriptor >= 0 && (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY)
    failed = count_open("fclose", descriptor); /* what stdio buffers isn't written yet */
  int result = REAL(fclose)(file);
  if (!failed) return result;
  errno = ENOSPC;
  return EOF;
}

int fsync(int descriptor) {
  return count_open("fsync", descriptor) ? -1 : REAL(fsync)(descriptor);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
  if (count_open("pwrite", descriptor)) return -1;
  return REAL(pwrite64)(descriptor, data, size, offset);
}

ssize_t write(int descriptor, const void *data, size_t size) {
  if (count_open("write", descriptor)) return -1;
  return REAL(write)(descriptor, data, size);
}
