# Called by pin_embed_files() at build time: NAME, OUT, INPUTS.
set(arrays "")
set(rows "")
set(count 0)
set(all "")
foreach(input IN LISTS INPUTS)
    get_filename_component(file "${input}" NAME)
    file(READ "${input}" hex HEX)
    string(APPEND all "${file} ${hex}\n")
    string(LENGTH "${hex}" digits)
    math(EXPR size "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char data_${count}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${file}\", data_${count}, ${size}},\n")
    math(EXPR count "${count} + 1")
endforeach()
string(SHA256 digest "${all}")
file(WRITE "${OUT}.h" "#pragma once
#include <stddef.h>
#ifndef PIN_EMBEDDED_DEFINED
#define PIN_EMBEDDED_DEFINED
struct pin_embedded {
    const char *name;
    const unsigned char *data;
    size_t size;
};
#endif
extern const struct pin_embedded ${NAME}[];
extern const size_t ${NAME}_count;
extern const char ${NAME}_digest[];
")
file(WRITE "${OUT}.c" "#include \"${NAME}.h\"
${arrays}
const struct pin_embedded ${NAME}[] = {
${rows}};
const size_t ${NAME}_count = ${count};
const char ${NAME}_digest[] = \"${digest}\";
")
