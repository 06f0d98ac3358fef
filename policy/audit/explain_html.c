#include "policy/audit/explain_html.h"

#include <string.h>

#include "base/names.h"
#include "pin_policy_explain.h"
#include "policy/policy_write.h"

static void add(struct pin_buffer *to, const char *text) {
    pin_buffer_add(to, text);
}

void pin_html_text(struct pin_buffer *to, const char *text) {
    static const struct {
        char plain;
        const char *written;
    } escapes[] = {
        {'&',  "&amp;" },
        {'<',  "&lt;"  },
        {'>',  "&gt;"  },
        {'"',  "&quot;"},
        {'\'', "&#39;" },
    };
    for (; *text != '\0'; text++) {
        const char *written = NULL;
        for (size_t i = 0; i < PIN_COUNT(escapes); i++)
            if (escapes[i].plain == *text)
                written = escapes[i].written;
        if (written != NULL)
            add(to, written);
        else if ((unsigned char)*text >= 0x20 && *text != 0x7F)
            pin_buffer_add_bytes(to, text, 1);
        else
            add(to, " ");
    }
}

static const struct {
    const char *id, *title;
} parts[] = {
    {"score", "Exposure"             },
    {"wall",  "The wall"             },
    {"map",   "Where data can go"    },
    {"lines", "What it can do"       },
    {"calls", "System calls"         },
    {"lint",  "What to look at again"},
};

static void open_section(struct pin_buffer *to, size_t part) {
    pin_buffer_printf(to, "<section aria-labelledby=\"%s\"><h2 id=\"%s\">%s</h2>", parts[part].id,
                      parts[part].id, parts[part].title);
}

static void add_head(struct pin_buffer *to, const struct pin_policy *policy) {
    char digest[PIN_DIGEST_TEXT];
    add(to, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
            "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
            "<title>Policy ");
    pin_html_text(to, policy->name);
    add(to, "</title><style>\n");
    pin_buffer_add_bytes(to, (const char *)pin_policy_explain[0].data, pin_policy_explain[0].size);
    add(to,
        "</style></head><body><a class=\"skip\" href=\"#main\">Skip to the content</a><header><h1>Policy ");
    pin_html_text(to, policy->name);
    add(to, "</h1><p>");
    pin_html_text(to, policy->description);
    add(to, "</p><p class=\"mono\">");
    pin_html_text(to, pin_digest_print(digest, policy->digest));
    add(to, "</p><nav aria-label=\"Sections\"><ul>");
    for (size_t i = 0; i < PIN_COUNT(parts); i++)
        pin_buffer_printf(to, "<li><a href=\"#%s\">%s</a></li>", parts[i].id, parts[i].title);
    add(to, "</ul></nav></header><main id=\"main\">\n");
}

static void add_score(struct pin_buffer *to, const struct pin_score *score) {
    open_section(to, 0);
    pin_buffer_printf(
        to,
        "<div class=\"score\"><b>%.1f</b><span>of 10: 0 exposes nothing of the host, 10 "
        "everything</span></div><div class=\"scroll\"><table><caption>What the score is made "
        "of</caption><thead><tr><th scope=\"col\">Part</th><th scope=\"col\">Points</th><th "
        "scope=\"col\">Share of its most</th><th scope=\"col\">What weighs</th></tr></thead><tbody>",
        score->total);
    for (size_t i = 0; i < PIN_SCORE_PART_COUNT; i++) {
        const struct pin_score_line *line = &score->parts[i];
        const char *name = pin_score_part_name((enum pin_score_part)i);
        pin_buffer_printf(to,
                          "<tr><th scope=\"row\">%s</th><td class=\"number\">%.2f</td><td><meter min=\"0\" "
                          "max=\"%.2f\" value=\"%.3f\" aria-label=\"%s: %.2f of %.1f\"></meter></td><td>",
                          name, line->points, line->most > 0 ? line->most : 1, line->points, name,
                          line->points, line->most);
        pin_html_text(to, line->detail);
        add(to, "</td></tr>");
    }
    add(to, "</tbody></table></div></section>\n");
}

static void add_lines(struct pin_buffer *to, const struct pin_explain *explain) {
    static const char *const words[] = {"can", "cannot", "limit"};
    open_section(to, 3);
    for (size_t i = 0; i < PIN_EXPLAIN_GROUP_COUNT; i++) {
        pin_buffer_printf(to, "<h3>%s</h3><ul class=\"lines\">",
                          pin_explain_group_title((enum pin_explain_group)i));
        for (size_t j = 0; j < explain->groups[i].count; j++) {
            const struct pin_explain_line *line = &explain->groups[i].list[j];
            char place[PIN_PLACE_TEXT];
            pin_buffer_printf(to, "<li><span class=\"tag %s\">%s</span> ", words[line->tone],
                              words[line->tone]);
            pin_html_text(to, line->text);
            add(to, " <span class=\"place mono\">");
            pin_html_text(to, line->place.file != NULL ? pin_place_print(place, &line->place) : "always");
            add(to, "</span></li>");
        }
        add(to, "</ul>");
    }
    add(to, "</section>\n");
}

static void add_lint(struct pin_buffer *to, const struct pin_lint *lint) {
    open_section(to, 5);
    if (lint->count == 0)
        add(to, "<p>Nothing was found.</p>");
    else
        add(to, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Severity</th><th "
                "scope=\"col\">Rule</th>"
                "<th scope=\"col\">What</th><th scope=\"col\">Remedy</th><th "
                "scope=\"col\">Place</th></tr></thead>"
                "<tbody>");
    for (size_t i = 0; i < lint->count; i++) {
        const struct pin_lint_fault *fault = &lint->faults[i];
        const char *severity = pin_lint_severity_name(fault->rule->severity);
        char place[PIN_PLACE_TEXT];
        pin_buffer_printf(to, "<tr><td><span class=\"tag %s\">%s</span></td><td class=\"mono\">%s</td><td>",
                          severity, severity, fault->rule->id);
        pin_html_text(to, fault->message);
        add(to, "</td><td>");
        pin_html_text(to, fault->rule->remedy);
        add(to, "</td><td class=\"place mono\">");
        pin_html_text(to, pin_place_print(place, &fault->place));
        add(to, "</td></tr>");
    }
    add(to, lint->count > 0 ? "</tbody></table></div></section>\n" : "</section>\n");
}

void pin_explain_html(struct pin_buffer *to, const struct pin_explain_page *page) {
    add_head(to, page->reach->policy);
    add_score(to, page->score);
    open_section(to, 1);
    pin_explain_wall(to, page->reach);
    add(to, "</section>\n");
    open_section(to, 2);
    pin_explain_egress_map(to, page->reach->policy);
    add(to, "</section>\n");
    add_lines(to, page->explain);
    open_section(to, 4);
    pin_explain_call_table(to, page->reach);
    add(to, "</section>\n");
    add_lint(to, page->lint);
    add(to, "</main></body></html>\n");
}
