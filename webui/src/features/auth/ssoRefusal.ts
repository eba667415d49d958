/** Why single sign-on led back here, by the code in the address. */
const REFUSALS: Record<string, string> = {
  account_exists:
    "An account with your user name or e-mail exists here and is not linked to the identity provider. If it is yours, log in to it by password and link it: Settings, Password and MFA.",
  account_inactive: "Your account is deactivated. Ask an administrator.",
  sso_claim_missing: "The identity provider names no user name for you. Ask an administrator.",
  sso_linked: "Your account is linked to the identity provider already. Unlink it first.",
  sso_linked_elsewhere: "Another user here is linked to that account of the identity provider.",
  sso_off: "Single sign-on is not set up on this server.",
  sso_refused: "The identity provider refused the login.",
  sso_state: "The login took too long, or was begun in another browser. Try again.",
  sso_token_invalid: "The answer of the identity provider was refused. Ask an administrator.",
  sso_unavailable: "The identity provider does not answer as it should. Try again later.",
};

/** The sentence for a code of the address, whose text may come from anyone. */
export function ssoRefusal(code: string): string {
  return REFUSALS[code] ?? "The login by single sign-on failed; try again.";
}
