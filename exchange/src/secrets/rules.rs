//! Rules: the formats of secrets that their makers published, and what keeps examples out.
//!
//! A format is known by a beginning that its maker chose so that it can be found, as the public rule
//! sets of secret scanners list them (Gitleaks, MIT, is the one that the ids follow). The expressions
//! are in the syntax of the crate `regex`; the first group, where there is one, is the value.

/// The bytes behind a keyword in which a secret ends.
const REACH: usize = 400;

/// A format of secrets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecretRule {
    /// The id, as it stands in masks and allowances.
    pub id: &'static str,
    /// The secret, in a few words.
    pub about: &'static str,
    /// One of these stands in or before the value, in any case of letters.
    pub(super) keywords: &'static [&'static str],
    pub(super) pattern: &'static str,
    /// The least entropy of a value, in bits a character.
    pub(super) entropy: f64,
    pub(super) check: ValueCheck,
    pub(super) reach: usize,
}

/// The examination of a value that has the form of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueCheck {
    /// The form says it: only placeholders are no secrets.
    Form,
    /// A password that somebody chose.
    Password,
    /// The name beside it says it: the value must look random.
    Assignment,
}

const fn rule(
    id: &'static str,
    about: &'static str,
    keywords: &'static [&'static str],
    pattern: &'static str,
) -> SecretRule {
    SecretRule { id, about, keywords, pattern, entropy: 2.5, check: ValueCheck::Form, reach: REACH }
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

/// The rule of assignments; where another rule finds the value too, that one names it.
pub(super) const ASSIGNMENT: &str = "assignment";

/// Every rule, by the kind of its maker.
pub static RULES: &[SecretRule] = &[
    // Clouds
    rule(
        "aws-access-key",
        "an access key id of AWS",
        &["akia", "asia", "abia", "acca"],
        r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
    ),
    random(rule(
        "aws-secret-key",
        "a secret access key of AWS",
        &["aws_secret", "aws-secret", "awssecret", "secretaccesskey", "secret_access_key"],
        r#"(?i)(?:aws[_-]?secret[_-]?(?:access[_-]?)?key|secret[_-]?access[_-]?key)["']{0,2}\s{0,4}[:=]{1,2}>?\s{0,4}["']{0,2}([a-z0-9/+]{40})(?:[^a-z0-9/+=]|$)"#,
    )),
    rule(
        "gcp-api-key",
        "an API key of Google",
        &["aiza"],
        r"\b(AIza[0-9A-Za-z_-]{35})(?:[^0-9A-Za-z_-]|$)",
    ),
    rule(
        "google-client-secret",
        "an OAuth client secret of Google",
        &["gocspx-"],
        r"\b(GOCSPX-[A-Za-z0-9_-]{28})",
    ),
    rule(
        "google-access-token",
        "an OAuth token of Google",
        &["ya29."],
        r"\b(ya29\.[0-9A-Za-z_-]{30,})",
    ),
    rule(
        "google-refresh-token",
        "an OAuth refresh token of Google",
        &["1//0"],
        r"\b(1//0[0-9A-Za-z_-]{40,})",
    ),
    rule(
        "azure-storage-key",
        "the key of a storage account of Azure",
        &["accountkey="],
        r"(?i)AccountKey=([A-Za-z0-9+/]{86}==)",
    ),
    rule(
        "azure-client-secret",
        "a client secret of Entra ID",
        &["q~"],
        r"(?:^|[^A-Za-z0-9_~.-])([a-zA-Z0-9_~.]{3}[0-9]Q~[a-zA-Z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
    ),
    rule(
        "azure-sas",
        "a shared access signature of Azure",
        &["sig="],
        r"[?&](?:amp;)?sig=([A-Za-z0-9%+/]{40,70}(?:%3[dD]|=))",
    ),
    rule(
        "digitalocean-token",
        "a token of DigitalOcean",
        &["doo_v1_", "dop_v1_", "dor_v1_"],
        r"\b(do[opr]_v1_[a-f0-9]{64})\b",
    ),
    rule(
        "cloudflare-origin-key",
        "an origin CA key of Cloudflare",
        &["v1.0-"],
        r"\b(v1\.0-[a-f0-9]{24}-[a-f0-9]{146})\b",
    ),
    rule("heroku-key", "an API key of Heroku", &["hrku-"], r"\b(HRKU-AA[0-9a-zA-Z_-]{58})"),
    rule(
        "alibaba-access-key",
        "an access key id of Alibaba Cloud",
        &["ltai"],
        r"\b(LTAI[a-zA-Z0-9]{20})\b",
    ),
    rule(
        "vault-token",
        "a token of HashiCorp Vault",
        &["hvs.", "hvb."],
        r"\b(hv[sb]\.[A-Za-z0-9_-]{24,300})",
    ),
    rule(
        "terraform-token",
        "a token of Terraform Cloud",
        &[".atlasv1."],
        r"\b([a-zA-Z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})",
    ),
    rule(
        "doppler-token",
        "a token of Doppler",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."],
        r"\b(dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,})",
    ),
    rule(
        "flyio-token",
        "a token of Fly.io",
        &["fo1_", "fm1_", "fm1a_", "fm1r_", "fm2_"],
        r"\b(fo1_[\w-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}={0,3})",
    ),
    rule("netlify-token", "a token of Netlify", &["nfp_"], r"\b(nfp_[A-Za-z0-9_]{36,60})\b"),
    rule(
        "vercel-blob-token",
        "a token of Vercel Blob",
        &["vercel_blob_rw_"],
        r"\b(vercel_blob_rw_[A-Za-z0-9]{10,40}_[A-Za-z0-9]{20,60})\b",
    ),
    rule(
        "supabase-key",
        "a secret key of Supabase",
        &["sbp_", "sb_secret_"],
        r"\b(sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,60})\b",
    ),
    rule("pulumi-token", "a token of Pulumi", &["pul-"], r"\b(pul-[a-f0-9]{40})\b"),
    rule(
        "databricks-token",
        "a token of Databricks",
        &["dapi"],
        r"\b(dapi[a-f0-9]{32}(?:-[0-9])?)\b",
    ),
    rule(
        "planetscale-token",
        "a token of PlanetScale",
        &["pscale_"],
        r"\b(pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64})",
    ),
    rule(
        "tailscale-key",
        "a key of Tailscale",
        &["tskey-"],
        r"\b(tskey-[a-z]+-[0-9A-Za-z_]+-[0-9A-Za-z_]{10,})",
    ),
    // Hosts of code, and what builds it
    rule(
        "github-token",
        "a token of GitHub",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b",
    ),
    rule(
        "github-fine-grained-token",
        "a fine-grained token of GitHub",
        &["github_pat_"],
        r"\b(github_pat_[A-Za-z0-9_]{82})\b",
    ),
    rule(
        "gitlab-token",
        "a token of GitLab",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-"],
        r"\b(gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_=.-]{20,64})",
    ),
    rule(
        "bitbucket-password",
        "an app password of Bitbucket",
        &["atbb"],
        r"\b(ATBB[A-Za-z0-9]{28,40})\b",
    ),
    rule(
        "atlassian-token",
        "an API token of Atlassian",
        &["atatt3"],
        r"\b(ATATT3[A-Za-z0-9_=-]{100,})",
    ),
    rule("buildkite-token", "a token of Buildkite", &["bkua_"], r"\b(bkua_[a-f0-9]{40})\b"),
    rule(
        "circleci-token",
        "a token of CircleCI",
        &["ccipat_"],
        r"\b(CCIPAT_[A-Za-z0-9]{10,30}_[a-f0-9]{40})\b",
    ),
    rule(
        "sonarqube-token",
        "a token of SonarQube",
        &["sqp_", "squ_", "sqa_"],
        r"\b(sq[pua]_[a-f0-9]{40})\b",
    ),
    // Chat
    rule(
        "slack-token",
        "a token of Slack",
        &["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxe.xox"],
        r"\b(xox[abeoprs][.-](?:xox[bp]-)?(?:[0-9]-)?[A-Za-z0-9-]{20,250})",
    ),
    rule(
        "slack-app-token",
        "an app token of Slack",
        &["xapp-"],
        r"\b(xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{30,})",
    ),
    rule(
        "slack-webhook",
        "a webhook of Slack",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,60})",
    ),
    rule(
        "discord-webhook",
        "a webhook of Discord",
        &["/api/webhooks/"],
        r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/([\w-]{60,70})",
    ),
    rule(
        "teams-webhook",
        "a webhook of Teams",
        &["webhook.office.com/"],
        r"webhook\.office\.com/webhookb2/([a-z0-9@-]{70,}/IncomingWebhook/[a-z0-9]{32}/[a-z0-9-]{36})",
    ),
    rule(
        "telegram-token",
        "the token of a Telegram bot",
        &[":aa"],
        r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)",
    ),
    // Payment and trade
    rule(
        "stripe-key",
        "a secret key of Stripe",
        &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"],
        r"\b([sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,247})\b",
    ),
    rule(
        "stripe-webhook-secret",
        "the secret of a webhook",
        &["whsec_"],
        r"\b(whsec_[A-Za-z0-9+/]{32,64}={0,2})",
    ),
    rule(
        "square-token",
        "a token of Square",
        &["sq0atp-", "sq0csp-"],
        r"\b(sq0(?:atp|csp)-[\w-]{22,43})",
    ),
    rule(
        "paypal-token",
        "a token of Braintree",
        &["access_token$"],
        r"\b(access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32})\b",
    ),
    rule(
        "shopify-token",
        "a token of Shopify",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b",
    ),
    rule(
        "plaid-token",
        "an access token of Plaid",
        &["access-sandbox-", "access-development-", "access-production-"],
        r"\b(access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
    ),
    rule(
        "shippo-token",
        "a token of Shippo",
        &["shippo_live_", "shippo_test_"],
        r"\b(shippo_(?:live|test)_[a-f0-9]{40})\b",
    ),
    // Providers of models
    rule(
        "openai-key",
        "an API key of OpenAI",
        &["t3blbkfj"],
        r"\b(sk-[A-Za-z0-9_-]{20,150}T3BlbkFJ[A-Za-z0-9_-]{20,150})",
    ),
    rule(
        "anthropic-key",
        "an API key of Anthropic",
        &["sk-ant-"],
        r"\b(sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{80,120})",
    ),
    rule(
        "openrouter-key",
        "an API key of OpenRouter",
        &["sk-or-v1-"],
        r"\b(sk-or-v1-[a-f0-9]{64})\b",
    ),
    random(rule(
        "model-api-key",
        "an API key of a provider of models",
        &["sk-", "csk-"],
        r"\b(c?sk-(?:proj-|svcacct-)?[A-Za-z0-9]{32,64})(?:[^A-Za-z0-9_-]|$)",
    )),
    rule(
        "huggingface-token",
        "a token of Hugging Face",
        &["hf_", "api_org_"],
        r"\b((?:hf_|api_org_)[A-Za-z0-9]{34})\b",
    ),
    rule("groq-key", "an API key of Groq", &["gsk_"], r"\b(gsk_[A-Za-z0-9]{52})\b"),
    rule("xai-key", "an API key of xAI", &["xai-"], r"\b(xai-[A-Za-z0-9]{80})\b"),
    rule("perplexity-key", "an API key of Perplexity", &["pplx-"], r"\b(pplx-[A-Za-z0-9]{48})\b"),
    rule("replicate-token", "a token of Replicate", &["r8_"], r"\b(r8_[A-Za-z0-9]{37})\b"),
    rule(
        "langsmith-key",
        "an API key of LangSmith",
        &["lsv2_"],
        r"\b(lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})\b",
    ),
    rule("nvidia-key", "an API key of NVIDIA", &["nvapi-"], r"\b(nvapi-[\w-]{60,70})"),
    rule(
        "tavily-key",
        "an API key of Tavily",
        &["tvly-"],
        r"\b(tvly-(?:dev-|prod-)?[A-Za-z0-9]{32})\b",
    ),
    rule("elevenlabs-key", "an API key of ElevenLabs", &["sk_"], r"\b(sk_[a-f0-9]{48})\b"),
    // Registries of packages
    rule("npm-token", "a token of npm", &["npm_"], r"\b(npm_[A-Za-z0-9]{36})\b"),
    long(
        rule(
            "pypi-token",
            "a token of PyPI",
            &["pypi-ageichlwas5vcmc", "pypi-agent"],
            r"\b(pypi-Ag[A-Za-z0-9_-]{50,1000})",
        ),
        1200,
    ),
    rule("rubygems-key", "an API key of RubyGems", &["rubygems_"], r"\b(rubygems_[a-f0-9]{48})\b"),
    rule("crates-token", "a token of crates.io", &["cio"], r"\b(cio[A-Za-z0-9]{32})\b"),
    rule("nuget-key", "an API key of NuGet", &["oy2"], r"\b(oy2[a-z0-9]{43})\b"),
    rule(
        "dockerhub-token",
        "a token of Docker Hub",
        &["dckr_pat_", "dckr_oat_"],
        r"\b(dckr_(?:pat|oat)_[\w-]{27,40})",
    ),
    rule("artifactory-key", "an API key of Artifactory", &["akcp"], r"\b(AKCp[A-Za-z0-9]{69})\b"),
    rule("clojars-token", "a token of Clojars", &["clojars_"], r"\b(CLOJARS_[a-z0-9]{60})\b"),
    // Mail, telephone, office, operation
    rule("sendgrid-key", "an API key of SendGrid", &["sg."], r"\b(SG\.[\w-]{20,24}\.[\w-]{39,50})"),
    rule("mailgun-key", "an API key of Mailgun", &["key-"], r"\b(key-[a-f0-9]{32})\b"),
    rule(
        "brevo-key",
        "an API key of Brevo",
        &["xkeysib-"],
        r"\b(xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16})\b",
    ),
    rule(
        "twilio-key",
        "a key of Twilio",
        &["twilio"],
        r#"(?i:twilio)[^\n]{0,40}?["'=:\s]((?:SK)?[a-f0-9]{32})\b"#,
    ),
    rule(
        "postman-key",
        "an API key of Postman",
        &["pmak-"],
        r"\b(PMAK-[a-f0-9]{24}-[a-f0-9]{34})\b",
    ),
    rule(
        "linear-key",
        "a key of Linear",
        &["lin_api_", "lin_oauth_"],
        r"\b(lin_(?:api|oauth)_[A-Za-z0-9]{32,64})\b",
    ),
    rule("notion-token", "a token of Notion", &["ntn_"], r"\b(ntn_[A-Za-z0-9]{40,50})\b"),
    rule("figma-token", "a token of Figma", &["figd_"], r"\b(figd_[\w-]{40,50})"),
    rule(
        "grafana-token",
        "a token of Grafana",
        &["glsa_", "glc_"],
        r"\b(glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/]{60,400}={0,3})",
    ),
    rule(
        "sentry-token",
        "a token of Sentry",
        &["sntrys_", "sntryu_"],
        r"\b(sntry[su]_[A-Za-z0-9+/=_]{40,300})",
    ),
    rule("newrelic-key", "a user key of New Relic", &["nrak-"], r"\b(NRAK-[A-Z0-9]{27})\b"),
    rule(
        "dynatrace-token",
        "a token of Dynatrace",
        &["dt0"],
        r"\b(dt0[a-zA-Z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})\b",
    ),
    rule("posthog-key", "a personal key of PostHog", &["phx_"], r"\b(phx_[A-Za-z0-9]{40,60})\b"),
    rule("contentful-token", "a token of Contentful", &["cfpat-"], r"\b(CFPAT-[\w-]{43})"),
    rule(
        "mapbox-token",
        "a secret token of Mapbox",
        &["sk.eyj"],
        r"\b(sk\.eyJ[\w-]{60,}\.[\w-]{22})",
    ),
    rule(
        "onepassword-token",
        "a service account token of 1Password",
        &["ops_eyj"],
        r"\b(ops_eyJ[A-Za-z0-9+/=]{200,})",
    ),
    rule(
        "age-key",
        "a secret key of age",
        &["age-secret-key-1"],
        r"\b(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})",
    ),
    rule(
        "facebook-token",
        "a token of Facebook",
        &["eaam", "eaac"],
        r"\b(EAA[MC][A-Za-z0-9]{100,})\b",
    ),
    // Forms that many makers share
    long(
        rule(
            "private-key",
            "a private key",
            &["private key-----", "private key block-----"],
            r"(-----BEGIN (?:[A-Z0-9]{2,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s+[A-Za-z-]{2,20}: [^\n]{1,100}){0,4}(?:\s+(?:[0-9]{1,6}(?:\t|→|: ?|\| ?))?[A-Za-z0-9+/=]{4,80})+(?:\s+(?:[0-9]{1,6}(?:\t|→|: ?|\| ?))?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)",
        ),
        16_000,
    ),
    long(
        rule(
            "jwt",
            "a JSON web token",
            &["eyj"],
            r"(?:^|[^A-Za-z0-9_/+.-])(eyJ[A-Za-z0-9_-]{17,}\.eyJ[A-Za-z0-9_-]{17,}\.[A-Za-z0-9_-]{20,})",
        ),
        4000,
    ),
    checked(
        rule(
            "database-url",
            "the URL of a database, with its password",
            &["postgres", "mysql", "mariadb", "mongodb", "redis", "amqp", "mssql", "clickhouse"],
            r#"(?i)\b(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|clickhouse)(?:\+[a-z0-9]+)?://[^\s:/@"'<>\\?#]{0,64}:([^\s/@"'<>\\]{4,128})@[a-z0-9\[]"#,
        ),
        ValueCheck::Password,
    ),
    checked(
        rule(
            "url-password",
            "a URL with a password",
            &["://"],
            r#"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@"'<>\\?#]{0,64}:([^\s:/@"'<>\\]{4,128})@[a-z0-9\[]"#,
        ),
        ValueCheck::Password,
    ),
    random(rule(
        "authorization-header",
        "the token of a request",
        &["authorization"],
        r#"(?i)\bauthorization["']{0,2}\s{0,2}[:=,]\s{0,2}["']{0,2}(?:bearer|token|basic)\s+([a-z0-9+/_.~=-]{20,})"#,
    )),
    checked(
        rule(
            ASSIGNMENT,
            "a name that says so, and a value that looks random",
            &[
                "passw",
                "passphrase",
                "pwd",
                "secret",
                "token",
                "api_key",
                "apikey",
                "api-key",
                "access_key",
                "accesskey",
                "access-key",
                "auth_key",
                "authkey",
                "private_key",
                "signing_key",
                "encryption_key",
                "master_key",
                "credential",
            ],
            r#"(?i)((?:[\w.-]{0,40})(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|auth|private|signing|encryption|master)[_-]?key|credential)s?[\w-]{0,16})["'\]]{0,2}\s{0,3}(?:=>|:=|=|:)\s{0,3}(?:"([^"\s\\]{8,256})"|'([^'\s\\]{8,256})'|`([^`\s\\]{8,256})`|([^\s"'`\\,;(){}\[\]<>$&|*]{8,256})(?:[\s"'`\\,;)}\]<&|]|$))"#,
        ),
        ValueCheck::Assignment,
    ),
];
