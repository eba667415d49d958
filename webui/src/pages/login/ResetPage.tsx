import { Button, PasswordInput } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { errorMessage } from "@/api/errors";
import { resetPassword } from "@/api/session";
import { LinkButton } from "@/ui/LinkButton";
import { LoginFrame } from "./LoginFrame";
import css from "@/features/auth/LoginForm.module.css";

/** Sets a new password: the page of the link that an administrator gives to a user who forgot it. */
export function ResetPage() {
  useDocumentTitle("New password · Skep");
  const { user, token } = useSearch({ from: "/reset-password" });
  const [password, setPassword] = useState("");
  const reset = useMutation({ mutationFn: () => resetPassword(user, token, password) });

  function submit(event: FormEvent) {
    event.preventDefault();
    reset.mutate();
  }

  return (
    <LoginFrame name="New password">
      {reset.isSuccess ? (
        <div className={css.form} role="status">
          <p>Your password is set, {user}. All sessions and tokens of before have ended.</p>
          <LinkButton to="/login">Log in</LinkButton>
        </div>
      ) : (
        <form onSubmit={submit} className={css.form}>
          <p>
            For <b>{user}</b>. This link works once.
          </p>
          <PasswordInput
            label="New password"
            name="password"
            size="sm"
            autoComplete="new-password"
            autoFocus
            required
            withAsterisk={false}
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
          />
          {reset.error ? (
            <p className={css.error} role="alert">
              {errorMessage(reset.error)}
            </p>
          ) : null}
          <Button type="submit" size="sm" loading={reset.isPending} fullWidth>
            Set the password
          </Button>
        </form>
      )}
    </LoginFrame>
  );
}
