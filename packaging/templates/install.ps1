# Installs turntree @VERSION@ for this user; needs no administrator.
#
#   install.ps1 [-Prefix DIR]     into DIR\bin; %LOCALAPPDATA%\Programs\turntree by default
#   install.ps1 -Uninstall [-Prefix DIR]
#
# A saved script may want 'powershell -ExecutionPolicy Bypass -File install.ps1'.
# TURNTREE_DOWNLOADS names the place of the archives: an address, or a directory of this machine.
# The archive is compared with the sum below before anything is installed.
param(
    [string]$Prefix = $(Join-Path $env:LOCALAPPDATA 'Programs\turntree'),
    [switch]$Uninstall
)

$version = '@VERSION@'
$downloads = if ($env:TURNTREE_DOWNLOADS) { $env:TURNTREE_DOWNLOADS } else { '@DOWNLOADS@' }
$sums = @'
@SUMS@
'@

function Get-System {
    # A 32-bit PowerShell names the processor in the second variable.
    $processor = if ($env:PROCESSOR_ARCHITEW6432) { $env:PROCESSOR_ARCHITEW6432 } else { $env:PROCESSOR_ARCHITECTURE }
    switch ($processor) {
        'AMD64' { 'x86_64-pc-windows-gnu' }
        'ARM64' { 'aarch64-pc-windows-gnullvm' }
        default { throw "there is no program for $processor" }
    }
}

function Set-UserPath([string]$Folder, [bool]$IsWanted) {
    # By the registry: [Environment] would replace %VARIABLES% in the folders of others by their values.
    $key = [Microsoft.Win32.Registry]::CurrentUser.CreateSubKey('Environment')
    $path = $key.GetValue('Path', '', [Microsoft.Win32.RegistryValueOptions]::DoNotExpandEnvironmentNames)
    $folders = @("$path" -split ';' | Where-Object { $_ -and $_ -ne $Folder })
    if ($IsWanted) { $folders += $Folder }
    $key.SetValue('Path', ($folders -join ';'), [Microsoft.Win32.RegistryValueKind]::ExpandString)
    $key.Dispose()
    # Setting a variable is what tells other programs, such as new terminals, to read all again.
    $signal = 'turntree-' + [guid]::NewGuid().ToString('N')
    [Environment]::SetEnvironmentVariable($signal, '1', 'User')
    [Environment]::SetEnvironmentVariable($signal, $null, 'User')
}

# A running program cannot be overwritten, but renamed: the next installation deletes it.
function Move-Away([string]$Path) {
    Remove-Item "$Path.old*" -Force -ErrorAction SilentlyContinue
    if (Test-Path $Path) { Move-Item $Path ("$Path.old" + [guid]::NewGuid().ToString('N')) }
    Remove-Item "$Path.old*" -Force -ErrorAction SilentlyContinue
}

function Install-Turntree {
    # In the functions, because a script that is piped to iex shares its settings with the session.
    $ErrorActionPreference = 'Stop'
    # The progress bar of Windows PowerShell makes a download many times slower.
    $ProgressPreference = 'SilentlyContinue'
    Set-StrictMode -Version 2
    $name = "turntree-$version-$(Get-System)"
    $archive = "$name.zip"
    $line = $sums -split "`r?`n" | Where-Object { ($_ -split '\s+')[1] -eq $archive } | Select-Object -First 1
    if (-not $line) { throw "version $version has no archive for this system ($archive)" }
    $expected = ($line -split '\s+')[0]
    $work = Join-Path ([IO.Path]::GetTempPath()) ('turntree-' + [guid]::NewGuid().ToString('N'))
    New-Item -ItemType Directory $work | Out-Null
    try {
        $file = Join-Path $work $archive
        if ($downloads -match '^https?://') {
            [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
            Invoke-WebRequest "$($downloads.TrimEnd('/'))/$archive" -OutFile $file -UseBasicParsing
        } else {
            Copy-Item (Join-Path $downloads $archive) $file
        }
        $found = (Get-FileHash $file -Algorithm SHA256).Hash.ToLowerInvariant()
        if ($found -ne $expected) { throw "$archive is damaged or another file: expected SHA-256 $expected, found $found" }
        Expand-Archive $file $work
        $source = Join-Path $work $name
        $said = & (Join-Path $source 'turntree.exe') --version
        if ($LASTEXITCODE -ne 0) { throw "the program of $archive does not run here" }
        $bin = Join-Path $Prefix 'bin'
        New-Item -ItemType Directory -Force $bin | Out-Null
        Move-Away (Join-Path $bin 'turntree.exe')
        Copy-Item (Join-Path $source 'turntree.exe') $bin
        foreach ($page in 'LICENSE-MIT', 'LICENSE-APACHE', 'THIRD-PARTY-LICENSES.txt') { Copy-Item (Join-Path $source $page) $Prefix -Force }
        Copy-Item (Join-Path $source 'completions\_turntree.ps1') $Prefix -Force
        Set-UserPath $bin $true
        Write-Output "Installed $said in $bin, which new terminals have in PATH."
        Write-Output "To begin: 'turntree demo', then 'turntree adopt'."
    } finally {
        Remove-Item $work -Recurse -Force -ErrorAction SilentlyContinue
    }
}

function Uninstall-Turntree {
    $ErrorActionPreference = 'Stop'
    Set-StrictMode -Version 2
    $program = Join-Path $Prefix 'bin\turntree.exe'
    if (-not (Test-Path $program)) { throw "nothing is installed in ${Prefix}: $program does not exist" }
    Move-Away $program
    foreach ($page in 'LICENSE-MIT', 'LICENSE-APACHE', 'THIRD-PARTY-LICENSES.txt', '_turntree.ps1') {
        Remove-Item (Join-Path $Prefix $page) -Force -ErrorAction SilentlyContinue
    }
    Set-UserPath (Join-Path $Prefix 'bin') $false
    Write-Output "Removed turntree from $Prefix. Stores stay, and so do hooks in the settings of agents."
}

if ($Uninstall) { Uninstall-Turntree } else { Install-Turntree }
