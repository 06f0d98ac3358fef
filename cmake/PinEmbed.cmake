# pin_embed_files(TARGET NAME FILE...): makes generated/NAME.h and NAME.c, in which every file is a byte array:
#   struct pin_embedded { const char *name; const unsigned char *data; size_t size; };
#   extern const struct pin_embedded NAME[]; extern const size_t NAME_count; extern const char NAME_digest[];
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

# pin_join_script(OUT FILE...): makes one program of JavaScript files. It is a block: none of its names is seen by other
# scripts in the same process.
function(pin_join_script out)
    add_custom_command(
        OUTPUT "${out}"
        COMMAND "${CMAKE_COMMAND}" "-DOUT=${out}" "-DINPUTS=${ARGN}" -P "${CMAKE_SOURCE_DIR}/cmake/join_script.cmake"
        DEPENDS ${ARGN} "${CMAKE_SOURCE_DIR}/cmake/join_script.cmake"
        VERBATIM)
endfunction()

# pin_place_hex(OUT IN BINARY): makes OUT of the text IN, with BINARY's digits where it says @HEX@.
function(pin_place_hex out in binary)
    add_custom_command(
        OUTPUT "${out}"
        COMMAND "${CMAKE_COMMAND}" "-DIN=${in}" "-DBINARY=${binary}" "-DOUT=${out}" -P "${CMAKE_SOURCE_DIR}/cmake/place_hex.cmake"
        DEPENDS "${in}" "${binary}" "${CMAKE_SOURCE_DIR}/cmake/place_hex.cmake"
        VERBATIM)
endfunction()

# The library of runtime/init/undumpable.c, which runners place in themselves, and contexts are handed.
function(pin_make_undumpable out)
    set(source "${CMAKE_SOURCE_DIR}/runtime/init/undumpable.c")
    add_custom_command(OUTPUT "${out}"
        COMMAND "${CMAKE_C_COMPILER}" -Os -shared -nostdlib -fPIC -fno-asynchronous-unwind-tables -fno-stack-protector
            -Wl,-z,noseparate-code,-z,norelro,--hash-style=gnu,--build-id=none,-s -o "${out}" "${source}"
        DEPENDS "${source}" VERBATIM)
endfunction()
