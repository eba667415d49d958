import { Button, TextInput } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { errorMessage } from "@/api/errors";
import { recoverAccount } from "@/api/session";
import { LinkButton } from "@/ui/LinkButton";
import { LoginFrame } from "./LoginFrame";
import css from "@/features/auth/LoginForm.module.css";

/** Asks for a link by e-mail. What it says afterwards does not tell whether there is an account. */
export function ForgotPage() {
  useDocumentTitle("Forgot the password · Skep");
  const [user, setUser] = useState("");
  const asking = useMutation({ mutationFn: () => recoverAccount(user.trim()) });

  function submit(event: FormEvent) {
    event.preventDefault();
    asking.mutate();
  }

  return (
    <LoginFrame name="Forgot the password">
      {asking.isSuccess ? (
        <div className={css.form} role="status">
          <p>
            If <b>{user.trim()}</b> is an account with a password and a confirmed e-mail address, a
            link to set a new one is on its way. It works once, for a day.
          </p>
          <p className="dim">
            Nothing came within minutes? Look among the unwanted mails, or ask an administrator for
            a link.
          </p>
          <LinkButton to="/login">Back to the login</LinkButton>
        </div>
      ) : (
        <form onSubmit={submit} className={css.form}>
          <p>You get a link by e-mail, to the address that you have confirmed.</p>
          <TextInput
            label="User name or e-mail address"
            name="username"
            size="sm"
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            autoFocus
            required
            withAsterisk={false}
            value={user}
            onChange={(event) => setUser(event.currentTarget.value)}
          />
          {asking.error ? (
            <p className={css.error} role="alert">
              {errorMessage(asking.error)}
            </p>
          ) : null}
          <Button type="submit" size="sm" loading={asking.isPending} fullWidth>
            Send the link
          </Button>
          <Link to="/login" className="link" style={{ textAlign: "center" }}>
            Back to the login
          </Link>
        </form>
      )}
    </LoginFrame>
  );
}
