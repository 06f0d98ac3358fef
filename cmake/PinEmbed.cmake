# pin_embed_files(TARGET NAME FILE...): makes generated/NAME.h and NAME.c, in which every file is a byte array:
#   struct pin_embedded { const char *name; const unsigned char *data; size_t size; };
#   extern const struct pin_embedded NAME[]; extern const size_t NAME_count;
# `name` is the file's name without its folder. The arrays end with a zero byte that `size` doesn't count.
function(pin_embed_files target name)
    set(out "${CMAKE_BINARY_DIR}/generated/${name}")
    set(inputs "")
    foreach(file IN LISTS ARGN)
        get_filename_component(path "${file}" ABSOLUTE)
        list(APPEND inputs "${path}")
    endforeach()
    add_custom_command(
        OUTPUT "${out}.c" "${out}.h"
        COMMAND "${CMAKE_COMMAND}" "-DNAME=${name}" "-DOUT=${out}" "-DINPUTS=${inputs}"
            -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
        DEPENDS ${inputs} "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
        VERBATIM)
    target_sources(${target} PRIVATE "${out}.c" "${out}.h")
endfunction()
