# Turns calls.txt, groups.txt, never.txt, baselines.txt and enosys.txt into C tables: OUT.c, for policy/syscalls_data.h.
# Called at build time: DATA (this folder), OUT. A name that isn't in calls.txt stops the build.

# Sets KIND_names, KIND_NAME_text and KIND_NAME_items from a file of sections.
macro(read_sections kind file)
    file(STRINGS "${DATA}/${file}" lines REGEX "^[^#]")
    set(${kind}_names "")
    foreach(line IN LISTS lines)
        if(line MATCHES "^([^ :]+): (.*)$")
            set(section "${CMAKE_MATCH_1}")
            list(APPEND ${kind}_names "${section}")
            set(${kind}_${section}_text "${CMAKE_MATCH_2}")
            set(${kind}_${section}_items "")
        else()
            string(REGEX MATCHALL "[^ ]+" words "${line}")
            list(APPEND ${kind}_${section}_items ${words})
        endif()
    endforeach()
endmacro()

# Sets `result` to the calls that a list of calls, @groups and =baselines stands for, sorted.
function(expand items result)
    set(all "")
    foreach(item IN LISTS items)
        if(item MATCHES "^@")
            if(NOT DEFINED group_${item}_items)
                message(FATAL_ERROR "no group '${item}'")
            endif()
            list(APPEND all ${group_${item}_items})
        elseif(item MATCHES "^=(.*)$")
            expand("${baseline_${CMAKE_MATCH_1}_items}" more)
            list(APPEND all ${more})
        else()
            list(APPEND all ${item})
        endif()
    endforeach()
    list(SORT all)
    list(REMOVE_DUPLICATES all)
    set(${result} "${all}" PARENT_SCOPE)
endfunction()

# Sets `result` to the numbers of the rows of calls in the table, as C.
function(rows_of items result)
    expand("${items}" names)
    set(rows "")
    foreach(name IN LISTS names)
        if(NOT DEFINED row_${name})
            message(FATAL_ERROR "no call '${name}' in calls.txt")
        endif()
        string(APPEND rows "${row_${name}}, ")
    endforeach()
    set(${result} "${rows}" PARENT_SCOPE)
endfunction()

read_sections(group groups.txt)
read_sections(never never.txt)
read_sections(baseline baselines.txt)
read_sections(enosys enosys.txt)
foreach(what IN LISTS never_names)
    expand("${what}" names)
    foreach(name IN LISTS names)
        set(reason_${name} "\"${never_${what}_text}\"")
    endforeach()
endforeach()

file(STRINGS "${DATA}/calls.txt" lines REGEX "^[^#]")
set(table "")
set(count 0)
foreach(line IN LISTS lines)
    if(NOT line MATCHES "^([a-z0-9_]+) ([0-9]+|-) ([0-9]+|-)( ([0-9.]+))?$")
        message(FATAL_ERROR "calls.txt: '${line}'")
    endif()
    set(name "${CMAKE_MATCH_1}")
    set(since "NULL")
    if(CMAKE_MATCH_5)
        set(since "\"${CMAKE_MATCH_5}\"")
    endif()
    string(REPLACE "-" "-1" numbers "${CMAKE_MATCH_2}, ${CMAKE_MATCH_3}")
    if(NOT DEFINED reason_${name})
        set(reason_${name} NULL)
    endif()
    string(APPEND table "    {\"${name}\", {${numbers}}, ${since}, ${reason_${name}}},\n")
    set(row_${name} ${count})
    math(EXPR count "${count} + 1")
endforeach()

foreach(kind group baseline)
    set(${kind}_arrays "")
    set(${kind}_table "")
    set(${kind}_count 0)
    foreach(name IN LISTS ${kind}_names)
        rows_of("${${kind}_${name}_items}" rows)
        set(n ${${kind}_count})
        string(APPEND ${kind}_arrays "static const uint16_t ${kind}_${n}[] = {${rows}};\n")
        string(APPEND ${kind}_table
            "    {\"${name}\", \"${${kind}_${name}_text}\", ${kind}_${n}, sizeof ${kind}_${n} / sizeof ${kind}_${n}[0]},\n")
        math(EXPR ${kind}_count "${n} + 1")
    endforeach()
endforeach()

rows_of("${enosys_enosys_items}" enosys)

file(WRITE "${OUT}.c" "#include \"policy/syscalls_data.h\"

const struct pin_syscall pin_syscalls[] = {
${table}};
const size_t pin_syscalls_count = ${count};

${group_arrays}
const struct pin_syscall_set pin_syscall_groups[] = {
${group_table}};
const size_t pin_syscall_groups_count = ${group_count};

${baseline_arrays}
const struct pin_syscall_set pin_syscall_baselines[] = {
${baseline_table}};
const size_t pin_syscall_baselines_count = ${baseline_count};

static const uint16_t enosys[] = {${enosys}};
const struct pin_syscall_set pin_syscall_enosys = {\"enosys\", \"${enosys_enosys_text}\", enosys,
                                                   sizeof enosys / sizeof enosys[0]};
")
