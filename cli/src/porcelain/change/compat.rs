//! `--compat`: known bugs of other systems, reproduced.

use clap::ValueEnum;
use turntree_exchange::formats::{ollm, swarm};

/// A version of another system whose known bugs are reproduced.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Compat {
    /// SwarmSDK 2.7.13; for ollm-context OLLM CLI 0.1.6
    Upstream,
    /// SwarmSDK 2.7.13, given events whose names are strings and not symbols
    StringKeys,
}

impl Compat {
    /// The compatibility mode of OLLM CLI.
    pub(crate) fn ollm(named: Option<Self>) -> ollm::OllmCompat {
        match named {
            Some(Self::Upstream) => ollm::OllmCompat::Upstream,
            Some(Self::StringKeys) | None => ollm::OllmCompat::Sound,
        }
    }

    /// The compatibility mode of SwarmSDK.
    pub(crate) fn of(named: Option<Self>) -> swarm::SwarmCompat {
        match named {
            None => swarm::SwarmCompat::Sound,
            Some(Self::Upstream) => swarm::SwarmCompat::Upstream,
            Some(Self::StringKeys) => swarm::SwarmCompat::StringKeys,
        }
    }
}
