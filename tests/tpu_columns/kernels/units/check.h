// SPDX-License-Identifier: Apache-2.0
//
// Checks of the units' tests, which need no library: a test is a program, and fails by its status.

#pragma once

#include <cstdio>

inline int num_failures = 0;

// Reports a condition that doesn't hold, and goes on.
#define CHECK(...)                                                  \
  do {                                                              \
    if (!(__VA_ARGS__)) {                                           \
      ++num_failures;                                               \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
    }                                                               \
  } while (false)
