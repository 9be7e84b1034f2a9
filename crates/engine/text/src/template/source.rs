//! Adjustments to a template's text before it is parsed.

/// Hugging Face's `{% generation %}` tags mark what the assistant says, for training. In a prompt they change
/// nothing, so they become a condition that always holds.
pub(super) fn without_generation_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        // Behind the opening: in `{%}` one `%` would be both.
        let Some((inner, _)) = tag[2..].split_once("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(inner.len() + 4);
        match inner.trim_matches(['-', '+']).trim() {
            name @ ("generation" | "endgeneration") => {
                let replacement = if name == "generation" { "if true" } else { "endif" };
                out.push_str(&tag.replacen(name, replacement, 1));
            }
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_generation_tags_change() {
        assert_eq!(
            without_generation_tags(
                "a{%- generation -%}{{ generation }}{% endgeneration %}{% if generation %}x{% endif"
            ),
            "a{%- if true -%}{{ generation }}{% endif %}{% if generation %}x{% endif"
        );
        assert_eq!(without_generation_tags("{%%}{%"), "{%%}{%");
        for whole in ["{%}", "{{%}", "{%}%}x", "{%", "{%%}", "%}{%"] {
            assert_eq!(without_generation_tags(whole), whole);
        }
    }
}
