class Turntree < Formula
  desc "Git for what an agent knows"
  homepage "@ADDRESS@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@DOWNLOADS@/@FILE:aarch64-apple-darwin@"
      sha256 "@SUM:aarch64-apple-darwin@"
    end
    on_intel do
      url "@DOWNLOADS@/@FILE:x86_64-apple-darwin@"
      sha256 "@SUM:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@DOWNLOADS@/@FILE:aarch64-unknown-linux-musl@"
      sha256 "@SUM:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@DOWNLOADS@/@FILE:x86_64-unknown-linux-musl@"
      sha256 "@SUM:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "turntree"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/turntree.bash" => "turntree"
    zsh_completion.install "completions/_turntree"
    fish_completion.install "completions/turntree.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/turntree --version")
    system bin/"turntree", "demo"
  end
end
