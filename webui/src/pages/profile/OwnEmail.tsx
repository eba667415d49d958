import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { changeEmail, info } from "@/api/session";
import type { Me } from "@/api/types";
import { useConfirmed } from "@/features/auth/useConfirmed";
import { FormDialog } from "@/ui/FormDialog";
import { notifySuccess } from "@/ui/notify";
import { ReadNote } from "@/ui/ReadNote";
import css from "./ApiTokens.module.css";
import page from "./SettingsPage.module.css";

/** The address of the own account: whether it is confirmed, and how to confirm or change it. */
export function OwnEmail({ user }: { user: Me }) {
  const query = useQuery(info);
  const [changing, setChanging] = useState(false);
  if (!query.data?.password_recovery)
    return <ReadNote query={query} what="ways to recover an account" />;
  return (
    <section className={page.block}>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>E-mail address</h2>
          <p className="dim">
            A confirmed address gets a link to set a new password if you forget yours.
          </p>
        </div>
        <Button variant="default" onClick={() => setChanging(true)}>
          {user.email ? (user.email_confirmed ? "Change" : "Confirm or change") : "Add"}
        </Button>
      </header>
      {user.email ? (
        <p>
          <b>{user.email}</b>{" "}
          <span className="dim">{user.email_confirmed ? "(confirmed)" : "(not confirmed)"}</span>
        </p>
      ) : (
        <p className={css.none}>You have none.</p>
      )}
      {changing ? <ChangeDialog email={user.email} onClose={() => setChanging(false)} /> : null}
    </section>
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
    <FormDialog
      open
      title="E-mail address"
      verb="Send a link"
      mutation={changing}
      onClose={onClose}
    >
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
