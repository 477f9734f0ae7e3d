{
  description = "turntree: git for what an agent knows";

  outputs = { self, nixpkgs }:
    let
      manifest = builtins.fromTOML (builtins.readFile ./Cargo.toml);
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forEach = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEach (pkgs: rec {
        default = turntree;
        turntree = pkgs.rustPlatform.buildRustPackage {
          pname = "turntree";
          version = manifest.workspace.package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "-p" "turntree-cli" ];
          # The tests want git, Python and much time: .ci/run does them.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            $out/bin/turntree manual pages
            installManPage pages/*.1
            for shell in bash zsh fish; do
              installShellCompletion --cmd turntree --$shell <($out/bin/turntree completions $shell)
            done
          '';
          meta = {
            description = manifest.workspace.package.description;
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "turntree";
          };
        };
      });
    };
}
