import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createToken, tokens } from "@/api/session";
import type { TokenScope } from "@/api/types";
import { CodeLine } from "@/ui/CodeLine";
import { FormDialog } from "@/ui/FormDialog";
import css from "./NewToken.module.css";

const DAY = 86_400;
const LIFETIMES = [
  { value: String(7 * DAY), label: "One week" },
  { value: String(30 * DAY), label: "30 days" },
  { value: String(90 * DAY), label: "90 days" },
  { value: String(365 * DAY), label: "One year" },
];

export const SCOPES: { value: TokenScope; label: string }[] = [
  { value: "read", label: "read only" },
  { value: "submit", label: "read, and work with jobs and files" },
  { value: "admin", label: "do everything that you may" },
];

export function NewToken({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState(String(30 * DAY));
  const [scope, setScope] = useState<TokenScope>("submit");
  const creation = useMutation({
    mutationFn: () => createToken(name.trim(), Number(lifetime), scope),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokens.queryKey }),
  });
  if (creation.data) return <Shown token={creation.data.token} onClose={onClose} />;
  return (
    <FormDialog
      open
      title="New API token"
      verb="Create"
      busy={creation.isPending}
      error={creation.error}
      onClose={onClose}
      onSubmit={() => creation.mutate()}
    >
      <TextInput
        label="Name"
        description="Where it will be used, so that you know it again"
        placeholder="laptop"
        required
        withAsterisk={false}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select
        label="May"
        data={SCOPES}
        value={scope}
        onChange={(value) => value && setScope(value as TokenScope)}
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

function Shown({ token, onClose }: { token: string; onClose: () => void }) {
  return (
    <Modal
      opened
      onClose={onClose}
      title="Your new token"
      centered
      size={560}
      closeOnClickOutside={false}
    >
      <div className={css.shown}>
        <p>Copy it now: it is shown this once, and kept by nobody but you.</p>
        <CodeLine text={token} label="Token" />
        <div className={css.end}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Modal>
  );
}
