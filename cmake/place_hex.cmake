# Called by pin_place_hex() at build time: IN, BINARY, OUT.
file(READ "${IN}" text)
file(READ "${BINARY}" hex HEX)
string(REPLACE "@HEX@" "${hex}" text "${text}")
file(WRITE "${OUT}" "${text}")
