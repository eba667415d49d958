import { Button } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createToken, revokeToken, tokens } from "@/api/session";
import { NewTokenDialog } from "@/features/tokens/NewTokenDialog";
import { TokenRow } from "@/features/tokens/TokenRow";
import { ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import css from "./ApiTokens.module.css";

/** Tokens for the command line and for scripts. */
export function ApiTokens() {
  const list = useQuery(tokens);
  const [creating, setCreating] = useState(false);
  const queries = useQueryClient();
  const refresh = () => queries.invalidateQueries({ queryKey: tokens.queryKey });
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
      <StaleNote query={list} what="list of tokens" />
      {list.isPending ? <SkeletonRows rows={2} /> : null}
      {list.isError && !list.data ? <ErrorState error={list.error} what="list of tokens" /> : null}
      {list.data?.length === 0 ? <p className={css.none}>You have none.</p> : null}
      <ul>
        {list.data?.map((token) => (
          <TokenRow
            key={token.id}
            token={token}
            onRevoke={() => revokeToken(token.id)}
            onSettled={refresh}
          />
        ))}
      </ul>
      {creating ? (
        <NewTokenDialog
          scopes={["submit", "read", "admin"]}
          onCreate={createToken}
          onCreated={refresh}
          onClose={() => setCreating(false)}
        />
      ) : null}
    </>
  );
}
