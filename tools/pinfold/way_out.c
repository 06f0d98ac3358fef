#include "tools/pinfold/way_out.h"

#include "runtime/bundle/bundle_places.h"
#include "runtime/egress/proxy_talk.h"

bool pin_way_out_find(const struct pin_bundle_ext *ext, struct pin_egress_setup *setup,
                      struct pin_secrets *login, struct pin_error *err) {
    const char *name = ext->proxy_secret;
    size_t size;
    *setup = (struct pin_egress_setup){
        .rules = {ext->egress, ext->egress_deny, ext->egress_count, ext->egress_deny_count,
                  pin_bundle_place(ext, PIN_FIELD_EGRESS)},
        .budgets = ext->egress_budgets,
        .budget_count = ext->egress_budget_count,
        .limits = ext->egress_limits,
        .unknown_names = ext->unknown_names,
    };
    if (ext->proxy_url == NULL)
        return true;
    if (!pin_proxy_parse(ext->proxy_url, &setup->proxy)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%.100s' is no proxy", ext->proxy_url);
        return pin_point(err, "/network/upstream_proxy/url");
    }
    if (name == NULL)
        return true;
    if (!pin_secrets_find(login, &name, 1, NULL, 0, err))
        return pin_wrap(err, "log in to the upstream proxy");
    setup->proxy_login = pin_secret_value(&login->list[0], &size);
    if (size < PIN_PROXY_LOGIN_MAX)
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the login of the upstream proxy is too long");
    return pin_point(err, "/network/upstream_proxy/secret");
}
