import { Button, Select } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { TokenScope } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { CopyableCode } from "@/ui/CopyableCode";
import { FormDialog } from "@/ui/FormDialog";
import { NameInput } from "@/ui/NameInput";
import { LIFETIMES, MONTH_S, SCOPE_CHOICES } from "./scopes";
import css from "./tokens.module.css";

interface Props<S extends TokenScope> {
  title?: string;
  /** The first one is chosen at first. */
  scopes: readonly [S, ...S[]];
  /** The answer holds the token itself, this once only. */
  onCreate: (name: string, seconds: number, scope: S) => Promise<{ token: string }>;
  onCreated: () => unknown;
  onClose: () => void;
}

/** Makes an API token and shows it once. */
export function NewTokenDialog<S extends TokenScope>(props: Props<S>) {
  const { title = "New API token", scopes, onCreate, onCreated, onClose } = props;
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState(String(MONTH_S));
  const [scope, setScope] = useState<S>(scopes[0]);
  const creation = useMutation({
    mutationFn: () => onCreate(name.trim(), Number(lifetime), scope),
    onSuccess: onCreated,
  });
  if (creation.data) return <CreatedToken token={creation.data.token} onClose={onClose} />;
  return (
    <FormDialog open title={title} verb="Create" mutation={creation} onClose={onClose}>
      <NameInput
        description="Where it will be used, so that you know it again"
        placeholder="laptop"
        value={name}
        onChange={setName}
      />
      <Select
        label="Scope"
        data={scopes.map((value) => ({ value, label: SCOPE_CHOICES[value] }))}
        value={scope}
        onChange={(value) => value && setScope(value as S)}
        allowDeselect={false}
      />
      <Select
        label="Expires after"
        data={LIFETIMES}
        value={lifetime}
        onChange={(value) => value && setLifetime(value)}
        allowDeselect={false}
      />
    </FormDialog>
  );
}

function CreatedToken({ token, onClose }: { token: string; onClose: () => void }) {
  return (
    <Dialog opened onClose={onClose} title="Your new token" size={560} closeOnClickOutside={false}>
      <div className={css.shown}>
        <p>Copy it now: it is shown only once, and the server keeps only its hash.</p>
        <CopyableCode text={token} label="Token" />
        <div className={css.newTokenEnd}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
