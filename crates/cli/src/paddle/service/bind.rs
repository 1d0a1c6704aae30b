//! Addresses and listeners of a server.

use contract::port::Ports;
use contract::{Error, Kind, Result};
use std::net::{IpAddr, Ipv4Addr, TcpListener};

/// How often a run of free ports is looked for when the system may choose.
const ATTEMPTS_MAX: usize = 64;

/// The addresses of the interfaces in `nics`, separated by commas; any address if there are none.
pub(super) fn addresses(nics: &str) -> Result<Vec<IpAddr>> {
    let names: Vec<&str> = nics.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
    }
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|source| Error::io("cannot list network interfaces", source))?;
    let address_of = |name: &str| {
        let found =
            interfaces.iter().find(|interface| interface.name == name && interface.ip().is_ipv4());
        found.map(if_addrs::Interface::ip).ok_or_else(|| {
            let mut known: Vec<&str> =
                interfaces.iter().map(|interface| interface.name.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            Error::invalid(
                "no such network interface, or it has no IPv4 address; leave out --nics \
                            to listen on all",
            )
            .with("nics", name)
            .with("known", known.join(","))
        })
    };
    names.into_iter().map(address_of).collect()
}

/// Listens on consecutive ports of all addresses; the real ports come back, with a listener per
/// address for each.
pub(crate) fn listen(
    addresses: &[IpAddr],
    wanted: Ports,
) -> Result<(Ports, Vec<Vec<TcpListener>>)> {
    wanted.check()?;
    if wanted.dense == 0 {
        return Err(Error::invalid("a server has at least one port for dense parameters")
            .with("ports_num", 0));
    }
    let mut attempts = if wanted.first == 0 { ATTEMPTS_MAX } else { 1 };
    loop {
        attempts -= 1;
        match listen_once(addresses, wanted) {
            Err(_) if attempts > 0 => {}
            outcome => return outcome,
        }
    }
}

fn listen_once(addresses: &[IpAddr], wanted: Ports) -> Result<(Ports, Vec<Vec<TcpListener>>)> {
    let mut first = wanted.first;
    let mut listeners = Vec::new();
    for place in 0..wanted.dense + wanted.sparse {
        let mut of_port = Vec::new();
        for address in addresses {
            // The system chooses the first port of the first address, the rest follow from it.
            let port = if first == 0 { 0 } else { first + place };
            let listener = TcpListener::bind((*address, port))
                .map_err(|source| refused(source, *address, port))?;
            if first == 0 {
                let bound = listener.local_addr().map_err(|source| refused(source, *address, 0))?;
                first = bound.port();
                Ports { first, ..wanted }.check()?;
            }
            of_port.push(listener);
        }
        listeners.push(of_port);
    }
    Ok((Ports { first, ..wanted }, listeners))
}

fn refused(source: std::io::Error, address: IpAddr, port: u16) -> Error {
    let message = match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "port is in use, perhaps by --metrics_port; choose another with --port"
        }
        _ => "cannot listen",
    };
    Error::new(Kind::Unavailable, message)
        .with("address", address)
        .with("port", port)
        .because(source)
}
