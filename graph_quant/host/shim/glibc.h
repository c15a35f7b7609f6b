/*
 * The oldest version of what moved from libdl to libc in glibc 2.34, so that one wheel (manylinux_2_28) serves older
 * systems too. Included before every source, by setup.py.
 */
#if defined(__x86_64__)
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST_GLIBC "GLIBC_2.17"
#endif

#ifdef OLDEST_GLIBC
__asm__(".symver dlopen, dlopen@" OLDEST_GLIBC);
__asm__(".symver dlclose, dlclose@" OLDEST_GLIBC);
__asm__(".symver dlsym, dlsym@" OLDEST_GLIBC);
__asm__(".symver dladdr, dladdr@" OLDEST_GLIBC);
#endif
