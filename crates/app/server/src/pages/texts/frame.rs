//! What every page says, and the page to sign in.

/// What every page says.
#[derive(Debug)]
pub(crate) struct FrameTexts {
    /// As HTML names it.
    pub(crate) language: &'static str,
    pub(crate) skip: &'static str,
    pub(crate) pages: &'static str,
    pub(crate) case_file: &'static str,
    pub(crate) calls: &'static str,
    pub(crate) cache: &'static str,
    pub(crate) savings: &'static str,
    pub(crate) compare: &'static str,
    pub(crate) foot: &'static str,
    pub(crate) sign_out: &'static str,
    pub(crate) operator: &'static str,
    pub(crate) to_the_start: &'static str,
    pub(crate) not_found: &'static str,
    pub(crate) not_found_message: &'static str,
    pub(crate) refused: &'static str,
    pub(crate) wrong_host: &'static str,
    pub(crate) wrong_host_hint: &'static str,
    pub(crate) wrong_origin: &'static str,
    pub(crate) wrong_origin_hint: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) failed_hint: &'static str,
    pub(crate) tenant_only: &'static str,
    pub(crate) tenant_only_hint: &'static str,
}

pub(super) const ENGLISH: FrameTexts = FrameTexts {
    language: "en",
    skip: "Skip to the content",
    pages: "Pages",
    case_file: "Case file",
    calls: "Calls",
    cache: "Cache",
    savings: "Savings",
    compare: "Compare",
    foot: "Everything on this page comes from this server. Nothing is sent to anyone else, but to the upstreams that its \
           operator has configured.",
    sign_out: "Sign out",
    operator: "operator",
    to_the_start: "To the start page",
    not_found: "Not found",
    not_found_message: "There is nothing at this address. It may have been deleted.",
    refused: "Refused",
    wrong_host: "This server does not answer under the name in the address bar.",
    wrong_host_hint: "Open it as http://localhost or http://127.0.0.1 with its port, or under the address that it was told to \
                      listen on.",
    wrong_origin: "This request did not come from one of this server's own pages.",
    wrong_origin_hint: "Load the page again and repeat what you did.",
    failed: "Something went wrong",
    failed_hint: "Nothing else was changed. The server's log says more.",
    tenant_only: "You are signed in as the operator, who has no case files.",
    tenant_only_hint: "Sign out, and sign in with a tenant's API key to work on case files.",
};

/// The page to sign in.
#[derive(Debug)]
pub(crate) struct SignInTexts {
    pub(crate) title: &'static str,
    pub(crate) why: &'static str,
    pub(crate) key: &'static str,
    pub(crate) key_hint: &'static str,
    pub(crate) button: &'static str,
    pub(crate) unknown: &'static str,
    pub(crate) unknown_hint: &'static str,
}

pub(super) const SIGN_IN: SignInTexts = SignInTexts {
    title: "Sign in",
    why: "This server serves several tenants, so it asks for an API key. What you do here then counts as that tenant's.",
    key: "API key",
    key_hint: "Your tenant's key, or the operator's admin key. It is not kept in the browser.",
    button: "Sign in",
    unknown: "This key is not known here.",
    unknown_hint: "Check that it was copied whole, without spaces. Your operator can make a new one.",
};
