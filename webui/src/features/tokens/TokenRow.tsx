import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ApiToken } from "@/api/types";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { SCOPE_LABELS, dayFormat } from "./scopes";
import css from "./tokens.module.css";

interface Props {
  token: ApiToken;
  onRevoke: () => Promise<unknown>;
  /** After a token was revoked, or was not. */
  onSettled: () => unknown;
}

/** One API token in a list: what it may do, when it was used, when it ends. */
export function TokenRow({ token, onRevoke, onSettled }: Props) {
  const revoking = useMutation({
    mutationFn: onRevoke,
    onError: (error) => notifyError(error, "The token was not revoked"),
    onSettled,
  });
  return (
    <li className={css.row}>
      <Icon name="key" size={14} />
      <b className={css.name}>{token.name || "unnamed"}</b>
      <span className="dim">
        {SCOPE_LABELS[token.scope]} · created <RelativeTime at={token.created_at} /> ·{" "}
        {lastUse(token.last_used_at)}
      </span>
      <span className={css.end}>{expiry(token)}</span>
      <DeleteIcon
        label={`Revoke ${token.name}`}
        busy={revoking.isPending}
        question={`Revoke ${token.name || "this token"}?`}
        explanation="Whatever uses it is refused within a second, and its live connections are closed."
        verb="Revoke"
        onConfirm={() => revoking.mutate()}
      />
    </li>
  );
}

function lastUse(at: string | null): ReactNode {
  return at ? (
    <>
      used <RelativeTime at={at} />
    </>
  ) : (
    "never used"
  );
}

function expiry({ expires_at }: ApiToken): string {
  return expires_at ? `until ${dayFormat.format(new Date(expires_at))}` : "does not expire";
}
