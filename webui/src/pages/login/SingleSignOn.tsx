import { Button } from "@mantine/core";
import type { Info } from "@/api/types";
import { ssoRefusal } from "@/features/auth/ssoRefusal";
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
          {ssoRefusal(refused)}
        </p>
      ) : null}
      {platform?.sso_name ? (
        <>
          <Button
            component="a"
            href={`/api/v1/auth/sso/start?next=${encodeURIComponent(next ?? "/")}`}
            size="sm"
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
