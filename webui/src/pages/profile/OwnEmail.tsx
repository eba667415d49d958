import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { changeEmail, info } from "@/api/session";
import type { Me } from "@/api/types";
import { useConfirmed } from "@/features/auth/useConfirmed";
import { FormDialog } from "@/ui/FormDialog";
import { notifySuccess } from "@/ui/notify";

/** The address of the own account: whether it is confirmed, and how to confirm or change it. */
export function OwnEmail({ user }: { user: Me }): ReactNode {
  const { data: platform } = useQuery(info);
  const [changing, setChanging] = useState(false);
  if (!platform?.password_recovery) return user.email || "–";
  return (
    <>
      {user.email || "none"}{" "}
      {user.email ? (
        <span className="dim">{user.email_confirmed ? "(confirmed)" : "(not confirmed)"}</span>
      ) : null}{" "}
      <Button variant="subtle" size="compact-sm" onClick={() => setChanging(true)}>
        {user.email ? (user.email_confirmed ? "Change" : "Confirm or change") : "Add"}
      </Button>
      {changing ? <ChangeDialog email={user.email} onClose={() => setChanging(false)} /> : null}
    </>
  );
}

function ChangeDialog({ email: before, onClose }: { email: string; onClose: () => void }) {
  const [email, setEmail] = useState(before);
  const [guard, dialog] = useConfirmed();
  const changing = useMutation({
    mutationFn: () => changeEmail(email.trim()),
    onSuccess: () => {
      notifySuccess(`A link was sent to ${email.trim()}: open it to confirm the address`);
      onClose();
    },
    onError: (error) => void guard(error, () => changing.mutate()),
  });
  if (dialog) return dialog;
  return (
    <FormDialog open title="E-mail address" verb="Send a link" mutation={changing} onClose={onClose}>
      <TextInput
        label="Address"
        type="email"
        autoComplete="email"
        data-autofocus
        required
        withAsterisk={false}
        description="It is yours when you open the link that is sent there. Who has a confirmed address can set a new password by e-mail."
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
