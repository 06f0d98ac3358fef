# Called at build time: IN (a program), OUT (the C file that image.h declares).
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}" "#include \"runtime/init/image.h\"

const unsigned char pin_init_image[] = {${bytes}};
const size_t pin_init_image_size = sizeof(pin_init_image);
")
