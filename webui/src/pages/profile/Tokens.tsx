import { ActionIcon, Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { revokeToken, tokens } from "@/api/session";
import type { ApiToken, TokenScope } from "@/api/types";
import { Confirm } from "@/ui/ConfirmButton";
import { Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import { SkeletonRows } from "@/ui/Skeleton";
import { Ago } from "@/ui/Time";
import { NewToken } from "./NewToken";
import css from "./Tokens.module.css";

/** Tokens for the command line and for scripts. */
export function Tokens() {
  const list = useQuery(tokens);
  const [creating, setCreating] = useState(false);
  return (
    <>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>API tokens</h2>
          <p className="dim">
            For the skep command line and scripts. Give each no more than it needs.
          </p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setCreating(true)}
        >
          New token
        </Button>
      </header>
      {list.isPending ? <SkeletonRows rows={2} /> : null}
      {list.isError && !list.data ? <Failure error={list.error} what="list of tokens" /> : null}
      {list.data?.length === 0 ? <p className={css.none}>You have none.</p> : null}
      <ul>
        {list.data?.map((token) => (
          <Row key={token.id} token={token} />
        ))}
      </ul>
      {creating ? <NewToken onClose={() => setCreating(false)} /> : null}
    </>
  );
}

function Row({ token }: { token: ApiToken }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const revoking = useMutation({
    mutationFn: () => revokeToken(token.id),
    onError: (error) => tellError(error, "The token was not revoked"),
    onSettled: () => queries.invalidateQueries({ queryKey: tokens.queryKey }),
  });
  return (
    <li className={css.row}>
      <Icon name="key" size={14} />
      <b className={css.name}>{token.name || "unnamed"}</b>
      <span className="dim">
        {SCOPE_WORDS[token.scope]} · made <Ago at={token.created_at} /> ·{" "}
        {token.last_used_at ? (
          <>
            used <Ago at={token.last_used_at} />
          </>
        ) : (
          "never used"
        )}
      </span>
      <span className={css.end}>{expiry(token)}</span>
      <ActionIcon
        aria-label={`Revoke ${token.name}`}
        loading={revoking.isPending}
        onClick={() => setAsking(true)}
      >
        <Icon name="trash" size={14} />
      </ActionIcon>
      <Confirm
        open={asking}
        question={`Revoke ${token.name || "this token"}?`}
        explanation="Whatever uses it is refused at once, and its live connections are closed."
        verb="Revoke"
        onConfirm={() => revoking.mutate()}
        onClose={() => setAsking(false)}
      />
    </li>
  );
}

const SCOPE_WORDS: Record<TokenScope, string> = {
  read: "reads only",
  submit: "works with jobs",
  admin: "may do all",
};

const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

function expiry({ expires_at }: ApiToken): string {
  return expires_at ? `until ${dayFormat.format(new Date(expires_at))}` : "does not expire";
}
