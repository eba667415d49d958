import { Button, Select, Switch, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  createServiceAccount,
  createServiceAccountToken,
  deleteServiceAccount,
  revokeServiceAccountToken,
  serviceAccountTokens,
  serviceAccounts,
  updateServiceAccount,
} from "@/api/serviceAccounts";
import type { ServiceAccount, ServiceAccountChange, ServiceAccountRole } from "@/api/types";
import { NewTokenDialog } from "@/features/tokens/NewTokenDialog";
import { TokenRow } from "@/features/tokens/TokenRow";
import { pluralize } from "@/format/numbers";
import { Dialog } from "@/ui/Dialog";
import { Confirm, DeleteIcon } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { NameInput } from "@/ui/NameInput";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./MembersTab.module.css";

/** Users for programs that a virtual cluster owns; for its VC admins. */
export function ServiceAccounts({ vc }: { vc: string }) {
  const list = useQuery(serviceAccounts(vc));
  const [creating, setCreating] = useState(false);
  const [shown, setShown] = useState<ServiceAccount | null>(null);
  return (
    <>
      <p className="dim">
        Users for programs, such as a pipeline: they have no password, only API tokens.
      </p>
      <QueryState query={list} what="list of service accounts">
        {(data) => (
          <ul>
            {data.map((account) => (
              <Row
                key={account.name}
                vc={vc}
                account={account}
                onShowTokens={() => setShown(account)}
              />
            ))}
          </ul>
        )}
      </QueryState>
      <Button
        variant="default"
        mt={10}
        leftSection={<Icon name="plus" size={14} />}
        onClick={() => setCreating(true)}
      >
        New service account
      </Button>
      {creating ? <NewAccount vc={vc} onClose={() => setCreating(false)} /> : null}
      {shown ? <Tokens vc={vc} account={shown} onClose={() => setShown(null)} /> : null}
    </>
  );
}

interface RowProps {
  vc: string;
  account: ServiceAccount;
  onShowTokens: () => void;
}

function Row({ vc, account, onShowTokens }: RowProps) {
  const { name, username, role, is_active: active } = account;
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const onSettled = () => queries.invalidateQueries({ queryKey: serviceAccounts(vc).queryKey });
  const change = useMutation({
    mutationFn: (body: ServiceAccountChange) => updateServiceAccount(vc, name, body),
    onError: (error) => notifyError(error),
    onSettled,
  });
  const removal = useMutation({
    mutationFn: () => deleteServiceAccount(vc, name),
    onError: (error) => notifyError(error, "The service account was not removed"),
    onSettled,
  });
  return (
    <li className={`${css.row} ${css.account}`}>
      <span className={css.who}>
        {name} <span className={css.detail}>{account.description || username}</span>
      </span>
      <span className={css.detail}>
        {account.last_used_at ? (
          <>
            used <RelativeTime at={account.last_used_at} />
          </>
        ) : (
          "never used"
        )}
      </span>
      <Button variant="default" size="compact-xs" onClick={onShowTokens}>
        {pluralize(account.tokens, "token")}
      </Button>
      <Select
        aria-label={`Role of ${name}`}
        data={["viewer", "member"]}
        value={role}
        onChange={(next) =>
          next && next !== role && change.mutate({ role: next as ServiceAccountRole })
        }
        allowDeselect={false}
        w={112}
      />
      <Switch
        aria-label={`${name} is enabled`}
        checked={active}
        onChange={() => (active ? setAsking(true) : change.mutate({ is_active: true }))}
      />
      <DeleteIcon
        label={`Remove ${name}`}
        busy={removal.isPending}
        question={`Remove ${name}?`}
        explanation="Its tokens are refused within a second, and its jobs are stopped."
        verb="Remove"
        onConfirm={() => removal.mutate()}
      />
      <Confirm
        open={asking}
        question={`Disable ${name}?`}
        explanation="All its tokens are revoked, and its jobs are stopped."
        verb="Disable"
        onConfirm={() => change.mutate({ is_active: false })}
        onClose={() => setAsking(false)}
      />
    </li>
  );
}

function NewAccount({ vc, onClose }: { vc: string; onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const creation = useMutation({
    mutationFn: () => createServiceAccount(vc, { name: name.trim(), description }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: serviceAccounts(vc).queryKey });
      onClose();
    },
  });
  return (
    <FormDialog
      open
      title="New service account"
      verb="Create"
      mutation={creation}
      onClose={onClose}
    >
      <NameInput
        description="Of the program, such as nightly"
        placeholder="nightly"
        value={name}
        onChange={setName}
      />
      <TextInput
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </FormDialog>
  );
}

interface TokensProps {
  vc: string;
  account: ServiceAccount;
  onClose: () => void;
}

function Tokens({ vc, account, onClose }: TokensProps) {
  const queries = useQueryClient();
  const list = useQuery(serviceAccountTokens(vc, account.name));
  const [creating, setCreating] = useState(false);
  // The list of accounts counts them, too.
  const refresh = () => queries.invalidateQueries({ queryKey: serviceAccounts(vc).queryKey });
  if (creating) {
    return (
      <NewTokenDialog
        title={`New token of ${account.name}`}
        scopes={["submit", "read"]}
        onCreate={(name, seconds, scope) =>
          createServiceAccountToken(vc, account.name, name, seconds, scope)
        }
        onCreated={refresh}
        onClose={() => setCreating(false)}
      />
    );
  }
  return (
    <Dialog opened onClose={onClose} title={`API tokens of ${account.name}`} size={640}>
      <QueryState query={list} what="list of tokens">
        {(data) => (
          <>
            {data.length === 0 ? <p className="dim">No tokens.</p> : null}
            <ul>
              {data.map((token) => (
                <TokenRow
                  key={token.id}
                  token={token}
                  onRevoke={() => revokeServiceAccountToken(vc, account.name, token.id)}
                  onSettled={refresh}
                />
              ))}
            </ul>
          </>
        )}
      </QueryState>
      <Button
        mt={12}
        variant="default"
        disabled={!account.is_active}
        leftSection={<Icon name="plus" size={14} />}
        onClick={() => setCreating(true)}
      >
        New token
      </Button>
    </Dialog>
  );
}
