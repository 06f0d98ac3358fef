# The built-in profiles, resolved while the program is built: profile.h. What restores one is in pin_policy, so that the
# program which makes the images can try them.
target_sources(pin_policy PRIVATE profile_restore.c)
target_sources(pin_policy PUBLIC FILE_SET HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES profile.h)

add_executable(pin_bake bake/bake.c)
target_link_libraries(pin_bake PRIVATE pin_flags pin_policy)
if(PIN_LIBC_MUSL)
    set_property(TARGET pin_bake PROPERTY POSITION_INDEPENDENT_CODE)
    target_link_libraries(pin_bake PRIVATE pin_musl)
    target_link_options(pin_bake PRIVATE ${PIN_MUSL_LINK})
endif()

set(out "${CMAKE_BINARY_DIR}/generated/pin_profile_images.c")
add_custom_command(
    OUTPUT "${out}"
    COMMAND pin_bake "${out}" strict tool build oci
    DEPENDS pin_bake
    VERBATIM)
add_library(pin_profiles STATIC profile.c "${out}")
target_link_libraries(pin_profiles PUBLIC pin_policy PRIVATE pin_flags)
