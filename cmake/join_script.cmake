# Called by pin_join_script() at build time: OUT, INPUTS.
set(text "\"use strict\";{\n")
foreach(input IN LISTS INPUTS)
    file(READ "${input}" part)
    string(APPEND text "${part}")
endforeach()
file(WRITE "${OUT}" "${text}}\n")
