import { PasswordInput, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createUser, users } from "@/api/admin";
import { isApiError } from "@/api/errors";
import type { NewUser as Draft } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";
import { notifySuccess } from "@/ui/notify";

const EMPTY: Required<Draft> = { username: "", email: "", password: "", is_admin: false };

export function NewUserDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState(EMPTY);
  const creation = useMutation({
    mutationFn: () => createUser(draft),
    onSuccess: (user) => {
      setDraft(EMPTY);
      onClose();
      notifySuccess(`${user.username} can log in now`);
      return queries.invalidateQueries({ queryKey: users.queryKey });
    },
  });
  const fields = isApiError(creation.error) ? creation.error.fields : {};
  const text = (field: "username" | "email" | "password") => ({
    value: draft[field],
    error: fields[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  const refusal = Object.keys(fields).some((field) => field in draft);
  return (
    <FormDialog
      open={open}
      title="New user"
      verb="Create"
      mutation={refusal ? { ...creation, error: null } : creation}
      onClose={onClose}
    >
      <TextInput
        label="User name"
        required
        withAsterisk={false}
        autoComplete="off"
        data-autofocus
        {...text("username")}
      />
      <TextInput label="E-mail" type="email" autoComplete="off" {...text("email")} />
      <PasswordInput
        label="Password"
        description="Pass it on to the user, who can change it"
        required
        withAsterisk={false}
        autoComplete="new-password"
        {...text("password")}
      />
      <Switch
        label="Administrator of the whole cluster"
        checked={draft.is_admin}
        onChange={(event) => setDraft({ ...draft, is_admin: event.currentTarget.checked })}
      />
    </FormDialog>
  );
}
