/* sys/resource.h: musl's, with the name that glibc gives the type of a resource. */
#ifndef PIN_MUSL_SYS_RESOURCE_H
#define PIN_MUSL_SYS_RESOURCE_H

#include_next <sys/resource.h>

typedef int __rlimit_resource_t;

#endif
