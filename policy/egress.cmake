# The judge of destinations: a library of its own, so that the broker carries nothing else of the policy.
add_library(pin_destinations STATIC egress_judge.c)
target_sources(pin_destinations PUBLIC FILE_SET HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES
    egress_judge.h)
set_target_properties(pin_destinations PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
target_link_libraries(pin_destinations PUBLIC pin_flags pin_policy pin_base)
