//! The server: its address, and whether it may be one's own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, anyhow};
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};

use crate::failure::Failure;

/// A server that may be audited.
#[derive(Debug)]
pub(super) struct Target {
    /// Its base, up to `/v1`, without a slash at the end.
    pub(super) base: String,
    /// Its addresses, all of which were looked at. The name is not resolved again: it could mean others by then.
    addresses: Vec<SocketAddr>,
    /// Whether all of them are this machine's or a private network's.
    pub(super) private: bool,
}

impl Target {
    /// Resolves a URL, and refuses one that leads to a public address unless the server was said to be one's own.
    pub(super) fn new(url: &str, owned: bool) -> Result<Self> {
        let bad = |what: &str| {
            Failure::usage(
                format!("--url {url}: {what}"),
                "write for example http://127.0.0.1:8080",
            )
        };
        let uri: Uri = url.parse().map_err(|_| bad("is no URL"))?;
        let port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(bad("must begin with http:// or https://").into()),
        };
        let authority = uri.authority().ok_or_else(|| bad("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user and password don't belong here").into());
        }
        if uri.query().is_some() {
            return Err(bad("a query doesn't belong here").into());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(port);
        let addresses: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .with_context(|| format!("the address of {host} could not be found"))?
            .collect();
        if addresses.is_empty() {
            return Err(anyhow!("the address of {host} could not be found"));
        }
        let public = addresses.iter().find(|address| !is_private(address.ip()));
        if let Some(public) = public.filter(|_| !owned) {
            let message = format!("{host} has the public address {}", public.ip());
            let hint = "audit only what is yours; if this is, say so with --i-own-this";
            return Err(Failure::usage(message, hint).into());
        }
        let private = public.is_none();
        let base =
            url.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches('/').to_owned();
        Ok(Target { base, addresses, private })
    }

    pub(super) fn pinned(&self) -> Pinned {
        Pinned(self.addresses.clone())
    }
}

/// Whether an address is this machine's or a private network's, and not one that others own.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_private(ip.into()),
            None => ip.is_loopback() || is_unique_local(ip) || ip.is_unicast_link_local(),
        },
    }
}

/// fc00::/7 (RFC 4193).
fn is_unique_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xfe00 == 0xfc00
}

/// Answers every question with the addresses that were looked at.
#[derive(Debug)]
pub(super) struct Pinned(Vec<SocketAddr>);

impl Resolver for Pinned {
    fn resolve(
        &self,
        _: &Uri,
        _: &ureq::config::Config,
        _: ureq::unversioned::transport::NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        // As many as ureq has room for.
        self.0.iter().take(16).for_each(|address| found.push(*address));
        Ok(found)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn private_and_public() {
        for ip in [
            "127.0.0.1",
            "127.8.8.8",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        // 0.0.0.0 means this machine to some systems and nothing to others; it is no address to audit.
        for ip in [
            "8.8.8.8",
            "172.32.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "::",
            "fec0::1",
        ] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn what_may_be_audited() {
        let base = |url, owned| Target::new(url, owned).map(|target| (target.base, target.private));
        let mine = ("http://127.0.0.1:8080".to_owned(), true);
        assert_eq!(base("http://127.0.0.1:8080/v1/", false).unwrap(), mine);
        assert_eq!(base("http://127.0.0.1:8080", false).unwrap(), mine);
        assert!(base("http://[::1]:8080", false).unwrap().1);
        assert!(!base("https://8.8.8.8/llm", true).unwrap().1);
        for wrong in [
            "https://8.8.8.8",
            "ftp://127.0.0.1",
            "127.0.0.1:80",
            "http://127.0.0.1@8.8.8.8/",
            "http://a:b@127.0.0.1",
            "http://[::ffff:8.8.8.8]",
            "http://127.0.0.1/?a=1",
        ] {
            assert!(base(wrong, false).is_err(), "{wrong}");
        }
    }
}
