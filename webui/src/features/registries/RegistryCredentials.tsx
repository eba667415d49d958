import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  registryCredentials,
  removeRegistryCredential,
  setRegistryCredential,
} from "@/api/registryCredentials";
import type { RegistryCredential } from "@/api/types";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { ErrorState } from "@/ui/EmptyState";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./RegistryCredentials.module.css";

/** What jobs log in with to pull private images: those of a virtual cluster, or the user's own. */
export function RegistryCredentials({ vc = "" }: { vc?: string }) {
  const list = useQuery(registryCredentials(vc));
  const [adding, setAdding] = useState(false);
  return (
    <section>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Registry credentials</h2>
          <p className="dim">
            {vc
              ? "All jobs of this virtual cluster pull private images with them. Use an account that can only pull."
              : "Your jobs pull private images with them."}
          </p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setAdding(true)}
        >
          Add a registry
        </Button>
      </header>
      <StaleNote query={list} what="list of registry credentials" />
      {list.isPending ? <SkeletonRows rows={1} /> : null}
      {list.isError && !list.data ? (
        <ErrorState error={list.error} what="registry credentials" />
      ) : null}
      {list.data?.length === 0 ? <p className={css.none}>There are none.</p> : null}
      <ul>
        {list.data?.map((row) => (
          <CredentialRow key={row.registry} vc={vc} row={row} />
        ))}
      </ul>
      {adding ? <AddDialog vc={vc} onClose={() => setAdding(false)} /> : null}
    </section>
  );
}

function CredentialRow({ vc, row }: { vc: string; row: RegistryCredential }) {
  const queries = useQueryClient();
  const removal = useMutation({
    mutationFn: () => removeRegistryCredential(vc, row.registry),
    onError: (error) => notifyError(error, "The credentials were not removed"),
    onSettled: () => queries.invalidateQueries({ queryKey: registryCredentials(vc).queryKey }),
  });
  return (
    <li className={css.row}>
      <Icon name="key" size={14} />
      <b>{row.registry}</b>
      <span className="dim">
        {row.username} · set <RelativeTime at={row.updated_at} />
      </span>
      <span className={css.end}>
        <DeleteIcon
          label={`Remove the credentials for ${row.registry}`}
          busy={removal.isPending}
          question={`Remove the credentials for ${row.registry}?`}
          explanation="Jobs that start from now on pull its images without them. Tasks that run keep running."
          verb="Remove"
          onConfirm={() => removal.mutate()}
        />
      </span>
    </li>
  );
}

function AddDialog({ vc, onClose }: { vc: string; onClose: () => void }) {
  const queries = useQueryClient();
  const [registry, setRegistry] = useState("");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const storing = useMutation({
    mutationFn: () => setRegistryCredential(vc, hostOf(registry), { username, password }),
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: registryCredentials(vc).queryKey });
    },
  });
  return (
    <FormDialog open title="Registry credentials" verb="Store" mutation={storing} onClose={onClose}>
      <TextInput
        label="Registry"
        description="Credentials that are stored for it are replaced"
        placeholder="registry.example.org:5000"
        required
        withAsterisk={false}
        data-autofocus
        value={registry}
        onChange={(event) => setRegistry(event.currentTarget.value)}
      />
      <TextInput
        label="User name"
        required
        withAsterisk={false}
        autoComplete="off"
        value={username}
        onChange={(event) => setUsername(event.currentTarget.value)}
      />
      <PasswordInput
        label="Password or token"
        required
        withAsterisk={false}
        autoComplete="new-password"
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
    </FormDialog>
  );
}

/** The host of an address as people copy it, such as https://index.docker.io/v1/. */
function hostOf(text: string): string {
  return (
    text
      .trim()
      .replace(/^https?:\/\//, "")
      .split("/")[0] ?? ""
  );
}
