/* Preloaded into a process: kills it before the n-th call that changes something in a directory, or
 * makes calls fail: those that need room there from the n-th on, as on a full disk; the n-th that
 * reads there; or the n-th that allocates memory.
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
#include <sys/uio.h>
#include <unistd.h>

static char directory[4096];
static long fatal_call, full_call, bad_read, calls;
static int bad_from_there_on;
static long bad_allocation, allocations;
static size_t least_bytes;

static void watch(const char *path) {
  snprintf(directory, sizeof directory, "%s", path);
  calls = fatal_call = full_call = bad_read = 0;
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

/* Counts the reads below a directory; the n-th fails, or all from there on. */
void unreadable_at(const char *path, long n, int from_there_on) {
  watch(path);
  bad_read = n;
  bad_from_there_on = from_there_on;
}

/* Counts the allocations of some bytes or more; the n-th fails; 0 ends the counting. */
void no_memory_at(long n, size_t bytes) {
  allocations = 0;
  least_bytes = bytes;
  bad_allocation = n;
}

long calls_so_far(void) { return calls; }

long allocations_so_far(void) { return allocations; }

/* Returns whether the call must fail. */
static int count(const char *what, const char *path, int needs_room) {
  if (!directory[0] || !path || !strstr(path, directory) || strstr(path, "events.out")) return 0;
  if (bad_read) return 0;
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

/* Writes the path of an open file; returns whether it has one. */
static int find_path(int descriptor, char *path, size_t most) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, most - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return 1;
}

static int count_open(const char *what, int descriptor) {
  char path[4096];
  return find_path(descriptor, path, sizeof path) && count(what, path, 1);
}

/* Returns whether the read must fail. */
static int count_read(int descriptor) {
  char path[4096];
  if (!bad_read || !find_path(descriptor, path, sizeof path)) return 0;
  if (!strstr(path, directory) || strstr(path, "events.out")) return 0;
  long number = __sync_add_and_fetch(&calls, 1);
  if (number != bad_read && !(bad_from_there_on && number > bad_read)) return 0;
  errno = EIO;
  return 1;
}

/* Returns whether the allocation must fail. */
static int count_allocation(size_t size) {
  if (!bad_allocation || size < least_bytes) return 0;
  if (__sync_add_and_fetch(&allocations, 1) != bad_allocation) return 0;
  errno = ENOMEM;
  return 1;
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

ssize_t read(int descriptor, void *data, size_t size) {
  return count_read(descriptor) ? -1 : REAL(read)(descriptor, data, size);
}

ssize_t pread64(int descriptor, void *data, size_t size, off64_t offset) {
  return count_read(descriptor) ? -1 : REAL(pread64)(descriptor, data, size, offset);
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset) {
  return count_read(descriptor) ? -1 : REAL(pread)(descriptor, data, size, offset);
}

ssize_t preadv64v2(int descriptor, const struct iovec *parts, int count, off64_t offset, int flags) {
  return count_read(descriptor) ? -1 : REAL(preadv64v2)(descriptor, parts, count, offset, flags);
}

ssize_t preadv2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
  return count_read(descriptor) ? -1 : REAL(preadv2)(descriptor, parts, count, offset, flags);
}

/* dlsym allocates, so these call the C library's other names. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { return count_allocation(size) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
  return count_allocation(count * size) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *data, size_t size) {
  return count_allocation(size) ? NULL : __libc_realloc(data, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return count_allocation(size) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **data, size_t alignment, size_t size) {
  if (count_allocation(size)) return ENOMEM;
  *data = __libc_memalign(alignment, size);
  return *data ? 0 : ENOMEM;
}
