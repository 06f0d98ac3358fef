# System calls: tables made from policy/data, lookups, and the filter that a policy resolves to.
set(data "${CMAKE_CURRENT_SOURCE_DIR}/data")
set(out "${CMAKE_BINARY_DIR}/generated/pin_syscalls_data")
add_custom_command(
    OUTPUT "${out}.c"
    COMMAND "${CMAKE_COMMAND}" "-DDATA=${data}" "-DOUT=${out}" -P "${data}/generate.cmake"
    DEPENDS "${data}/calls.txt" "${data}/groups.txt" "${data}/never.txt" "${data}/baselines.txt"
        "${data}/enosys.txt" "${data}/generate.cmake"
    VERBATIM)
target_sources(pin_policy PRIVATE "${out}.c"
    filter.c filter_algebra.c filter_check.c syscalls.c syscalls_guard.c syscalls_resolve.c)
target_sources(pin_policy PUBLIC FILE_SET HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES
    filter_algebra.h syscalls.h syscalls_data.h syscalls_guard.h)
