import { Button } from "@mantine/core";
import type { Info } from "@/api/types";
import css from "./LoginFrame.module.css";

interface Props {
  platform: Info | undefined;
  /** A page of this site. */
  next: string | undefined;
  /** The code of the refusal that led back here. */
  refused: string | undefined;
}

/** The button of single sign-on, where the server has it, and why it led back. */
export function SingleSignOn({ platform, next, refused }: Props) {
  return (
    <>
      {refused ? (
        <p className={css.refused} role="alert">
          {REFUSALS[refused] ?? "The login by single sign-on failed; try again."}
        </p>
      ) : null}
      {platform?.sso_name ? (
        <>
          <Button
            component="a"
            href={`/api/v1/auth/sso/start?next=${encodeURIComponent(next ?? "/")}`}
            fullWidth
          >
            Log in with {platform.sso_name}
          </Button>
          <p className={css.or}>
            {platform.password_login === false
              ? "or, as an administrator, by password"
              : "or by password"}
          </p>
        </>
      ) : null}
    </>
  );
}

/** Why single sign-on led back here, by the code in the address. */
const REFUSALS: Record<string, string> = {
  account_exists:
    "An account with your user name or e-mail exists here and is not linked to the identity provider. Ask an administrator.",
  account_inactive: "Your account is deactivated. Ask an administrator.",
  sso_claim_missing: "The identity provider names no user name for you. Ask an administrator.",
  sso_off: "Single sign-on is not set up on this server.",
  sso_refused: "The identity provider refused the login.",
  sso_state: "The login took too long, or was begun in another browser. Try again.",
  sso_token_invalid: "The answer of the identity provider was refused. Ask an administrator.",
  sso_unavailable: "The identity provider does not answer as it should. Try again later.",
};
