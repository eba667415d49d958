import { ActionIcon, Button, Checkbox } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { addKey, browserHasKeys, removeKey, renameKey } from "@/api/securityKeys";
import { mfa } from "@/api/session";
import type { SecurityKey } from "@/api/types";
import { RecoveryCodes } from "@/features/auth/MfaSetup";
import { useConfirmed } from "@/features/auth/useConfirmed";
import { Dialog } from "@/ui/Dialog";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { NameInput } from "@/ui/NameInput";
import { notifyError } from "@/ui/notify";
import { RelativeTime } from "@/ui/Time";
import css from "./ApiTokens.module.css";

/** Security keys and passkeys of the own account. */
export function SecurityKeys() {
  const state = useQuery(mfa);
  const [adding, setAdding] = useState(false);
  const keys = state.data?.keys ?? [];
  const possible = (state.data?.keys_supported ?? false) && browserHasKeys();
  return (
    <>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Security keys and passkeys</h2>
          <p className="dim">
            {state.data && !possible
              ? "Browsers use keys only where Skep has a host name and TLS. Ask an administrator."
              : "A USB key, or this device with its fingerprint or PIN."}
          </p>
        </div>
        {possible ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setAdding(true)}
          >
            Add a key
          </Button>
        ) : null}
      </header>
      {state.data && keys.length === 0 ? <p className={css.none}>You have none.</p> : null}
      <ul>
        {keys.map((key) => (
          <KeyRow key={key.id} of={key} />
        ))}
      </ul>
      {adding ? <AddDialog onClose={() => setAdding(false)} /> : null}
    </>
  );
}

function KeyRow({ of }: { of: SecurityKey }) {
  const queries = useQueryClient();
  const [renaming, setRenaming] = useState(false);
  const [guard, dialog] = useConfirmed();
  const removing = useMutation({
    mutationFn: () => removeKey(of.id),
    onError: (error) => {
      if (!guard(error, () => removing.mutate())) notifyError(error, "The key was not removed");
    },
    onSettled: () => queries.invalidateQueries({ queryKey: mfa.queryKey }),
  });
  return (
    <li className={css.row}>
      <Icon name="key" size={14} />
      <b className={css.name}>{of.name}</b>
      <span className="dim">
        {of.passkey ? "passkey" : "second factor"} · added <RelativeTime at={of.created_at} /> ·{" "}
        {of.last_used_at ? (
          <>
            used <RelativeTime at={of.last_used_at} />
          </>
        ) : (
          "never used"
        )}
      </span>
      <ActionIcon ml="auto" aria-label={`Rename ${of.name}`} onClick={() => setRenaming(true)}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <DeleteIcon
        label={`Remove ${of.name}`}
        busy={removing.isPending}
        question={`Remove ${of.name}?`}
        explanation="It no longer logs you in."
        verb="Remove"
        onConfirm={() => removing.mutate()}
      />
      {renaming ? <RenameDialog of={of} onClose={() => setRenaming(false)} /> : null}
      {dialog}
    </li>
  );
}

function RenameDialog({ of, onClose }: { of: SecurityKey; onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState(of.name);
  const renaming = useMutation({
    mutationFn: () => renameKey(of.id, name.trim()),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: mfa.queryKey });
      onClose();
    },
  });
  return (
    <FormDialog open title="Rename the key" verb="Rename" mutation={renaming} onClose={onClose}>
      <NameInput value={name} onChange={setName} />
    </FormDialog>
  );
}

function AddDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [passkey, setPasskey] = useState(false);
  const [guard, dialog] = useConfirmed();
  const adding = useMutation({
    mutationFn: () => addKey(name.trim(), passkey),
    onSuccess: ({ recovery_codes }) => {
      void queries.invalidateQueries({ queryKey: mfa.queryKey });
      if (recovery_codes.length === 0) onClose();
    },
    onError: (error) => void guard(error, () => adding.mutate()),
  });
  const codes = adding.data?.recovery_codes ?? [];
  if (codes.length > 0) {
    return (
      <Dialog opened onClose={onClose} title="Recovery codes" closeOnClickOutside={false}>
        <RecoveryCodes codes={codes} onDone={onClose} />
      </Dialog>
    );
  }
  if (dialog) return dialog;
  return (
    <FormDialog open title="Add a key" verb="Continue" mutation={adding} onClose={onClose}>
      <NameInput
        description="So that you know it again"
        placeholder="blue key"
        value={name}
        onChange={setName}
      />
      <Checkbox
        label="Also log in without a password (passkey)"
        checked={passkey}
        onChange={(event) => setPasskey(event.currentTarget.checked)}
      />
    </FormDialog>
  );
}
