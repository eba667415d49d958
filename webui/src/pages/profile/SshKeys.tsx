import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { addSshKey, removeSshKey, type SshKey, sshKeys } from "@/api/sshKeys";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./SshKeys.module.css";

/** The public keys with which the user logs in to tasks that ask for them. */
export function SshKeys() {
  const list = useQuery(sshKeys);
  const [adding, setAdding] = useState(false);
  return (
    <>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>SSH keys</h2>
          <p className="dim">
            With them you log in to tasks of your jobs whose ssh plugin has{" "}
            <code>userssh: {"{type: system}"}</code>. A shell in the page needs none.
          </p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setAdding(true)}
        >
          Add a key
        </Button>
      </header>
      <QueryState query={list} what="ssh keys" rows={1}>
        {(rows) =>
          rows.length === 0 ? (
            <p className={css.none}>There are none.</p>
          ) : (
            <ul aria-label="SSH keys">
              {rows.map((row) => (
                <KeyRow key={row.id} row={row} />
              ))}
            </ul>
          )
        }
      </QueryState>
      {adding ? <AddDialog onClose={() => setAdding(false)} /> : null}
    </>
  );
}

function KeyRow({ row }: { row: SshKey }) {
  const queries = useQueryClient();
  const removal = useMutation({
    mutationFn: () => removeSshKey(row.id),
    onError: (error) => notifyError(error, "The key was not removed"),
    onSettled: () => queries.invalidateQueries({ queryKey: sshKeys.queryKey }),
  });
  return (
    <li className={css.row}>
      <Icon name="key" size={14} />
      <span className={css.about}>
        <b>{row.name}</b>
        <span className={css.fingerprint}>
          {row.public_key.split(" ")[0]} {row.fingerprint}
        </span>
        <span className="dim">
          added <RelativeTime at={row.created_at} />
        </span>
      </span>
      <DeleteIcon
        label={`Remove the key ${row.name}`}
        busy={removal.isPending}
        question={`Remove the key ${row.name}?`}
        explanation="Tasks that start from now on do not know it. Tasks that run do until they end."
        verb="Remove"
        onConfirm={() => removal.mutate()}
      />
    </li>
  );
}

function AddDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const adding = useMutation({
    mutationFn: () => addSshKey(name.trim(), key.trim()),
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: sshKeys.queryKey });
    },
  });
  // "ssh-ed25519 AAAA… ann@laptop": its comment names the machine.
  function paste(text: string) {
    setKey(text);
    const comment = text.trim().split(/\s+/).slice(2).join(" ");
    if (!name) setName(comment.slice(0, 100));
  }
  return (
    <FormDialog open title="Add an ssh key" verb="Add" mutation={adding} onClose={onClose}>
      <Textarea
        label="Public key"
        description="The line of ~/.ssh/id_ed25519.pub. Never the file without .pub: that one stays with you."
        placeholder="ssh-ed25519 AAAA… ann@laptop"
        rows={4}
        value={key}
        onChange={(event) => paste(event.currentTarget.value)}
        required
        data-autofocus
      />
      <TextInput
        label="Name"
        placeholder="laptop"
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        required
      />
    </FormDialog>
  );
}
