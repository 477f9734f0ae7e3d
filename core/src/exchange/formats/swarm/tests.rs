//! Tests of the formats of SwarmSDK.
