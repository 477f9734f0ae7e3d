//! Rules: published formats of secrets, and checks that exclude examples.
//!
//! Vendors choose recognizable prefixes for their secrets, and public rule sets of secret scanners
//! list them (the ids follow Gitleaks, MIT). The expressions use the syntax of the crate `regex`.
//! The first group, if there is one, is the value.

use std::sync::LazyLock;

use turntree::object::{Kind, ObjectId};

/// Number of bytes after a keyword in which a secret ends.
const REACH: usize = 400;

/// A format of secrets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecretRule {
    /// The id in masks and allowances.
    pub id: &'static str,
    /// A short description of the secret.
    pub about: &'static str,
    pub(super) pattern: &'static str,
    /// The minimum entropy of a value, in bits per character.
    pub(super) entropy: f64,
    pub(super) check: ValueCheck,
    pub(super) reach: usize,
}

/// Returns an id of all rules, which differs after a change of a rule.
pub(crate) fn rules_id() -> ObjectId {
    static ID: LazyLock<ObjectId> =
        LazyLock::new(|| ObjectId::of(Kind::Blob, format!("{RULES:?}").as_bytes()));
    *ID
}

/// The check of a value that matches a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueCheck {
    /// The format is conclusive: only placeholders are excluded.
    Form,
    /// A password that a person chose.
    Password,
    /// The name before the value suggests a secret: the value must look random.
    Assignment,
    /// The surrounding words suggest a secret: the value must not be a word.
    Random,
    /// A name that suggests a secret, and a quoted text that may contain spaces and quotes.
    Phrase,
}

const fn rule(id: &'static str, about: &'static str, pattern: &'static str) -> SecretRule {
    SecretRule { id, about, pattern, entropy: 2.5, check: ValueCheck::Form, reach: REACH }
}

const fn long(rule: SecretRule, reach: usize) -> SecretRule {
    SecretRule { reach, ..rule }
}

const fn random(rule: SecretRule) -> SecretRule {
    SecretRule { entropy: 3.5, ..rule }
}

const fn checked(rule: SecretRule, check: ValueCheck) -> SecretRule {
    SecretRule { check, entropy: 0.0, ..rule }
}

/// The rule of assignments. Other rules take precedence for the same value.
pub(super) const ASSIGNMENT: &str = "assignment";

/// All rules, grouped by the kind of vendor.
pub static RULES: &[SecretRule] = &[
    // Cloud providers
    rule("aws-access-key", "an access key id of AWS", r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
    random(rule(
        "aws-secret-key",
        "a secret access key of AWS",
        r#"(?i)(?:aws[_-]?secret[_-]?(?:access[_-]?)?key|secret[_-]?access[_-]?key)["']{0,2}\s{0,4}[:=]{1,2}>?\s{0,4}["']{0,2}([a-z0-9/+]{40})(?:[^a-z0-9/+=]|$)"#,
    )),
    rule("gcp-api-key", "an API key of Google", r"\b(AIza[0-9A-Za-z_-]{35})(?:[^0-9A-Za-z_-]|$)"),
    rule(
        "google-client-secret",
        "an OAuth client secret of Google",
        r"\b(GOCSPX-[A-Za-z0-9_-]{28})",
    ),
    rule("google-access-token", "an OAuth token of Google", r"\b(ya29\.[0-9A-Za-z_-]{30,})"),
    rule("google-refresh-token", "an OAuth refresh token of Google", r"\b(1//0[0-9A-Za-z_-]{40,})"),
    rule(
        "azure-storage-key",
        "the key of a storage account of Azure",
        r"(?i)AccountKey=([A-Za-z0-9+/]{86}==)",
    ),
    rule(
        "azure-client-secret",
        "a client secret of Entra ID",
        r"(?m)(?:^[+-]?|[^A-Za-z0-9_~.-])([a-zA-Z0-9_~.]{3}[0-9]Q~[a-zA-Z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
    ),
    rule(
        "azure-sas",
        "a shared access signature of Azure",
        r"[?&](?:amp;)?sig=([A-Za-z0-9%+/]{40,70}(?:%3[dD]|=))",
    ),
    rule(
        "azure-key",
        "an access key of an Azure service",
        r"\b([A-Za-z0-9]{52}JQQJ9[9DC][A-Za-z0-9]{20,30}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b",
    ),
    rule(
        "azure-devops-token",
        "a token of Azure DevOps",
        r#"(?i)(?:azure[_-]?devops|azdo)[\w-]{0,24}["']{0,2}\s{0,3}[:=]\s{0,3}["']?([a-z2-7]{52})\b"#,
    ),
    rule(
        "bedrock-key",
        "an API key of Amazon Bedrock",
        r"\b(ABSK[A-Za-z0-9+/]{100,280}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{40,})",
    ),
    rule(
        "cloudflare-global-key",
        "the global API key of Cloudflare",
        r#"(?i)(?:x-auth-key|(?:cloudflare|cf)_(?:global_)?(?:api_)?key)["']{0,2}\s{0,3}[:=]\s{0,3}["']?([0-9a-f]{37})\b"#,
    ),
    rule("digitalocean-token", "a token of DigitalOcean", r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    rule(
        "cloudflare-origin-key",
        "an origin CA key of Cloudflare",
        r"\b(v1\.0-[a-f0-9]{24}-[a-f0-9]{146})\b",
    ),
    rule("heroku-key", "an API key of Heroku", r"\b(HRKU-AA[0-9a-zA-Z_-]{58})"),
    rule("alibaba-access-key", "an access key id of Alibaba Cloud", r"\b(LTAI[a-zA-Z0-9]{20})\b"),
    rule("vault-token", "a token of HashiCorp Vault", r"\b(hv[sb]\.[A-Za-z0-9_-]{24,300})"),
    rule(
        "terraform-token",
        "a token of Terraform Cloud",
        r"\b([a-zA-Z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})",
    ),
    rule("doppler-token", "a token of Doppler", r"\b(dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,})"),
    rule(
        "flyio-token",
        "a token of Fly.io",
        r"\b(fo1_[\w-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}={0,3})",
    ),
    rule("netlify-token", "a token of Netlify", r"\b(nfp_[A-Za-z0-9_]{36,60})\b"),
    rule(
        "vercel-blob-token",
        "a token of Vercel Blob",
        r"\b(vercel_blob_rw_[A-Za-z0-9]{10,40}_[A-Za-z0-9]{20,60})\b",
    ),
    rule(
        "supabase-key",
        "a secret key of Supabase",
        r"\b(sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,60})\b",
    ),
    rule("pulumi-token", "a token of Pulumi", r"\b(pul-[a-f0-9]{40})\b"),
    rule("databricks-token", "a token of Databricks", r"\b(dapi[a-f0-9]{32}(?:-[0-9])?)\b"),
    rule(
        "planetscale-token",
        "a token of PlanetScale",
        r"\b(pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64})",
    ),
    rule(
        "tailscale-key",
        "a key of Tailscale",
        r"\b(tskey-[a-z]+-[0-9A-Za-z_]+-[0-9A-Za-z_]{10,})",
    ),
    // Code hosting and CI
    rule("github-token", "a token of GitHub", r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b"),
    rule(
        "github-fine-grained-token",
        "a fine-grained token of GitHub",
        r"\b(github_pat_[A-Za-z0-9_]{82})\b",
    ),
    rule(
        "gitlab-token",
        "a token of GitLab",
        r"\b(gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_=.-]{20,64})",
    ),
    rule("bitbucket-password", "an app password of Bitbucket", r"\b(ATBB[A-Za-z0-9]{28,40})\b"),
    rule("atlassian-token", "an API token of Atlassian", r"\b(ATATT3[A-Za-z0-9_=-]{100,})"),
    rule("buildkite-token", "a token of Buildkite", r"\b(bkua_[a-f0-9]{40})\b"),
    rule("circleci-token", "a token of CircleCI", r"\b(CCIPAT_[A-Za-z0-9]{10,30}_[a-f0-9]{40})\b"),
    rule("sonarqube-token", "a token of SonarQube", r"\b(sq[pua]_[a-f0-9]{40})\b"),
    // Chat
    rule(
        "slack-token",
        "a token of Slack",
        r"\b(xox[abeoprs][.-](?:xox[bp]-)?(?:[0-9]-)?[A-Za-z0-9-]{20,250})",
    ),
    rule(
        "slack-app-token",
        "an app token of Slack",
        r"\b(xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{30,})",
    ),
    rule(
        "slack-webhook",
        "a webhook of Slack",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,60})",
    ),
    rule(
        "discord-webhook",
        "a webhook of Discord",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/([\w-]{60,70})",
    ),
    rule(
        "teams-webhook",
        "a webhook of Teams",
        r"webhook\.office\.com/webhookb2/([a-z0-9@-]{70,}/IncomingWebhook/[a-z0-9]{32}/[a-z0-9-]{36})",
    ),
    rule(
        "discord-bot-token",
        "the token of a Discord bot",
        r#"(?i:discord|\bbot\b|bot_token|bottoken)[^\n]{0,60}?["'=:\s]([MNO][DTjz][AEIMQUYcgk][0-5w-z][A-Za-z0-9]{19,24}\.[\w-]{6}\.[\w-]{27,40})"#,
    ),
    rule(
        "telegram-token",
        "the token of a Telegram bot",
        r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)",
    ),
    // Payment and commerce
    rule(
        "stripe-key",
        "a secret key of Stripe",
        r"\b([sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,247})\b",
    ),
    rule(
        "stripe-webhook-secret",
        "the secret of a webhook",
        r"\b(whsec_[A-Za-z0-9+/]{32,64}={0,2})",
    ),
    rule(
        "square-token",
        "a token of Square",
        r"\b(sq0(?:atp|csp)-[\w-]{22,43}|EAAA[\w+=-]{56,64})",
    ),
    rule(
        "paypal-token",
        "a token of Braintree",
        r"\b(access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32})\b",
    ),
    rule("shopify-token", "a token of Shopify", r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b"),
    rule(
        "plaid-token",
        "an access token of Plaid",
        r"\b(access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
    ),
    rule("shippo-token", "a token of Shippo", r"\b(shippo_(?:live|test)_[a-f0-9]{40})\b"),
    // Model providers
    rule(
        "openai-key",
        "an API key of OpenAI",
        r"\b(sk-[A-Za-z0-9_-]{20,150}T3BlbkFJ[A-Za-z0-9_-]{20,150})",
    ),
    rule(
        "anthropic-key",
        "an API key of Anthropic",
        r"\b(sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{80,120})",
    ),
    rule("openrouter-key", "an API key of OpenRouter", r"\b(sk-or-v1-[a-f0-9]{64})\b"),
    random(rule(
        "model-api-key",
        "an API key of a provider of models",
        r"\b(c?sk-(?:proj-|svcacct-)?[A-Za-z0-9]{32,64})(?:[^A-Za-z0-9_-]|$)",
    )),
    rule("huggingface-token", "a token of Hugging Face", r"\b((?:hf_|api_org_)[A-Za-z0-9]{34})\b"),
    rule("groq-key", "an API key of Groq", r"\b(gsk_[A-Za-z0-9]{52})\b"),
    rule("xai-key", "an API key of xAI", r"\b(xai-[A-Za-z0-9]{80})\b"),
    rule("perplexity-key", "an API key of Perplexity", r"\b(pplx-[A-Za-z0-9]{48})\b"),
    rule("replicate-token", "a token of Replicate", r"\b(r8_[A-Za-z0-9]{37})\b"),
    rule(
        "langsmith-key",
        "an API key of LangSmith",
        r"\b(lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})\b",
    ),
    rule("nvidia-key", "an API key of NVIDIA", r"\b(nvapi-[\w-]{60,70})"),
    rule("tavily-key", "an API key of Tavily", r"\b(tvly-(?:dev-|prod-)?[A-Za-z0-9]{32})\b"),
    rule(
        "langfuse-key",
        "a secret key of Langfuse",
        r"\b(sk-lf-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
    ),
    rule("together-key", "an API key of Together", r"\b(tgp_v1_[\w-]{40,50})"),
    rule("pinecone-key", "an API key of Pinecone", r"\b(pcsk_[A-Za-z0-9_]{40,90})\b"),
    rule("firecrawl-key", "an API key of Firecrawl", r"\b(fc-[a-f0-9]{32})\b"),
    rule("e2b-key", "an API key of E2B", r"\b(e2b_[a-f0-9]{40})\b"),
    checked(
        rule("voyage-key", "an API key of Voyage", r"\b(pa-[\w-]{43})(?:[^\w-]|$)"),
        ValueCheck::Random,
    ),
    rule("wandb-key", "an API key of Weights & Biases", r"\b(wandb_v1_[\w-]{40,120})"),
    rule("elevenlabs-key", "an API key of ElevenLabs", r"\b(sk_[a-f0-9]{48})\b"),
    // Package registries
    rule("npm-token", "a token of npm", r"\b(npm_[A-Za-z0-9]{36})\b"),
    long(rule("pypi-token", "a token of PyPI", r"\b(pypi-Ag[A-Za-z0-9_-]{50,1000})"), 1200),
    rule("rubygems-key", "an API key of RubyGems", r"\b(rubygems_[a-f0-9]{48})\b"),
    rule("crates-token", "a token of crates.io", r"\b(cio[A-Za-z0-9]{32})\b"),
    rule("nuget-key", "an API key of NuGet", r"\b(oy2[a-z0-9]{43})\b"),
    checked(
        rule(
            "npmrc-password",
            "a password or token in the settings of npm",
            r#"(?m)(?:^[+-]?|[\s:=&"'])_(?:auth|authToken|password)["']{0,2}\s{0,2}[:=]\s{0,2}["']?([A-Za-z0-9+/=_.-]{16,})"#,
        ),
        ValueCheck::Random,
    ),
    checked(
        rule(
            "docker-auth",
            "the login of a registry, as Docker keeps it",
            r#""auth"\s{0,3}:\s{0,3}"([A-Za-z0-9+/]{16,}={0,2})""#,
        ),
        ValueCheck::Random,
    ),
    rule("dockerhub-token", "a token of Docker Hub", r"\b(dckr_(?:pat|oat)_[\w-]{27,40})"),
    rule("artifactory-key", "an API key of Artifactory", r"\b(AKCp[A-Za-z0-9]{69})\b"),
    rule("clojars-token", "a token of Clojars", r"\b(CLOJARS_[a-z0-9]{60})\b"),
    // Mail, telephony, office, operations
    rule("sendgrid-key", "an API key of SendGrid", r"\b(SG\.[\w-]{20,24}\.[\w-]{39,50})"),
    rule("mailgun-key", "an API key of Mailgun", r"\b(key-[a-f0-9]{32})\b"),
    rule("brevo-key", "an API key of Brevo", r"\b(xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16})\b"),
    rule(
        "twilio-key",
        "a key of Twilio",
        r#"(?i:twilio)[^\n]{0,40}?["'=:\s]((?:SK)?[a-f0-9]{32})\b"#,
    ),
    rule(
        "hubspot-token",
        "a token of a private app of HubSpot",
        r"(?i)\b(pat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
    ),
    rule(
        "airtable-token",
        "a token of Airtable",
        r#"(?i:airtable)[^\n]{0,80}?["'=:\s](pat[A-Za-z0-9]{14}\.[a-f0-9]{64})\b"#,
    ),
    rule("postman-key", "an API key of Postman", r"\b(PMAK-[a-f0-9]{24}-[a-f0-9]{34})\b"),
    rule("linear-key", "a key of Linear", r"\b(lin_(?:api|oauth)_[A-Za-z0-9]{32,64})\b"),
    rule(
        "notion-token",
        "a token of Notion",
        r"\b(ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43})\b",
    ),
    rule("figma-token", "a token of Figma", r"\b(figd_[\w-]{40,50})"),
    rule(
        "grafana-token",
        "a token of Grafana",
        r"\b(glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/]{60,400}={0,3})",
    ),
    rule("sentry-token", "a token of Sentry", r"\b(sntry[su]_[A-Za-z0-9+/=_]{40,300})"),
    rule("newrelic-key", "a user key of New Relic", r"\b(NRAK-[A-Z0-9]{27})\b"),
    rule(
        "dynatrace-token",
        "a token of Dynatrace",
        r"\b(dt0[a-zA-Z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})\b",
    ),
    rule("posthog-key", "a personal key of PostHog", r"\b(phx_[A-Za-z0-9]{40,60})\b"),
    rule("contentful-token", "a token of Contentful", r"\b(CFPAT-[\w-]{43})"),
    rule("mapbox-token", "a secret token of Mapbox", r"\b(sk\.eyJ[\w-]{60,}\.[\w-]{22})"),
    rule(
        "onepassword-token",
        "a service account token of 1Password",
        r"\b(ops_eyJ[A-Za-z0-9+/=]{200,})",
    ),
    rule(
        "age-key",
        "a secret key of age",
        r"\b(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})",
    ),
    rule("facebook-token", "a token of Facebook", r"\b(EAA[MC][A-Za-z0-9]{100,})\b"),
    // Formats that many vendors share
    long(
        rule(
            "private-key",
            "a private key",
            r"(-----BEGIN (?:[A-Z0-9]{2,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s+[+-]?[A-Za-z-]{2,20}: [^\n]{1,100}){0,4}(?:\s+(?:[0-9]{1,6}(?:\t|→|: ?|\| ?)|[+-]\s{0,3}){0,2}[A-Za-z0-9+/=]{4,80})+(?:\s+(?:[0-9]{1,6}(?:\t|→|: ?|\| ?)|[+-])?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)",
        ),
        16_000,
    ),
    long(
        rule(
            "kubernetes-client-key",
            "the private key of a client, in a kubeconfig",
            r#"(?i)client-key-data["']{0,2}\s{0,3}:\s{0,3}["']?([A-Za-z0-9+/]{40,}={0,2})"#,
        ),
        8000,
    ),
    rule(
        "wireguard-key",
        "a private or shared key of WireGuard",
        r#"\b(?i:PrivateKey|PresharedKey|private_key|preshared_key)["']{0,2}\s{0,3}[=:]\s{0,3}["']?([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)"#,
    ),
    long(
        rule(
            "putty-key",
            "a private key of PuTTY",
            r"Private-Lines: [0-9]{1,3}\s+[+-]?((?:[A-Za-z0-9+/=]{4,80}\s+[+-]?)*[A-Za-z0-9+/=]{4,80})",
        ),
        8000,
    ),
    long(
        rule(
            "jwt",
            "a JSON web token",
            r"(?m)(?:^[+-]?|[^A-Za-z0-9_/+.-])(eyJ[A-Za-z0-9_-]{17,}\.eyJ[A-Za-z0-9_-]{17,}\.[A-Za-z0-9_-]{20,})",
        ),
        4000,
    ),
    checked(
        rule(
            "database-url",
            "the URL of a database, with its password",
            r#"(?i)\b(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|clickhouse)(?:\+[a-z0-9]+)?://[^\s:/@"'<>\\?#]{0,64}:([^\s/@"'<>\\]{4,128})@[a-z0-9\[]"#,
        ),
        ValueCheck::Password,
    ),
    checked(
        rule(
            "url-password",
            "a URL with a password",
            r#"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@"'<>\\?#]{0,64}:([^\s:/@"'<>\\]{4,128})@[a-z0-9\[]"#,
        ),
        ValueCheck::Password,
    ),
    checked(
        rule(
            "command-password",
            "a password on a command line",
            r#"(?x)
            \bcurl\b[^\n|;]{0,160}?\s(?:-u|--user|--proxy-user)[\s=]{0,2}["']?[^\s:"'\\]{1,64}:([^\s"'\\]{6,128})
            |\bsshpass\s{1,2}-p\s?["']?([^\s"'\\]{6,128})
            |\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]{0,120}?\s-p["']?([^\s"'\\=-][^\s"'\\]{5,128})
            |\b(?:docker|podman|helm\ registry|oras|skopeo|nerdctl)\s{1,2}login\b[^\n|;]{0,120}?\s(?:-p|--password)[\s=]["']?([^\s"'\\]{6,300})
            "#,
        ),
        ValueCheck::Password,
    ),
    checked(
        rule(
            "netrc-password",
            "a password in a .netrc",
            r#"\bmachine\s{1,8}[^\s"]{1,100}\s{1,8}login\s{1,8}[^\s"]{1,100}\s{1,8}password\s{1,8}([^\s"'\\]{6,256})"#,
        ),
        ValueCheck::Password,
    ),
    checked(
        rule(
            "pgpass-password",
            "a password in a .pgpass",
            r#"(?m)(?:^[+-]?|[\s=&"'>])[A-Za-z0-9_.*-]{1,100}:(?:5432|5433|6432|\*):[A-Za-z0-9_.*-]{1,63}:[A-Za-z0-9_.*-]{1,63}:([^\s:"'\\]{6,128})"#,
        ),
        ValueCheck::Password,
    ),
    random(rule(
        "authorization-header",
        "the token of a request",
        r#"(?i)\bauthorization["']{0,2}\s{0,2}[:=,]\s{0,2}["']{0,2}(?:bearer|token|basic)\s+([a-z0-9+/_.~=-]{20,})"#,
    )),
    checked(
        rule(
            "passphrase",
            "a password of several words or with quotes",
            r#"(?i)((?:[\w.-]{0,40})(?:passw(?:or)?d|passphrase|pwd|pass))["'\]]{0,2}\s{0,3}(?:=>|:=|=|:)\s{0,3}(?:"((?:[^"\\\n\x00]|\\.){8,128})"|'((?:[^'\\\n\x00]|\\.){8,128})')"#,
        ),
        ValueCheck::Phrase,
    ),
    checked(
        rule(
            ASSIGNMENT,
            "a name of a secret, and a value that looks random",
            r#"(?i)((?:[\w.-]{0,40})(?:(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|auth|private|signing|encryption|master)[_-]?key|credential)s?[\w-]{0,16}|pass))["'\]]{0,2}\s{0,3}(?:=>|:=|=|:)\s{0,3}(?:"([^"\s\\]{8,})"|'([^'\s\\]{8,})'|`([^`\s\\]{8,})`|([^\s"'`\\,;(){}\[\]<>$&|*]{8,})(?:[\s"'`\\,;)}\]<&|]|$))"#,
        ),
        ValueCheck::Assignment,
    ),
];
