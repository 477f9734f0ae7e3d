//! The program, built by this package so that its tests find it.

fn main() -> std::process::ExitCode {
    turntree_cli::main()
}
