import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { explain } from "@/api/errors";
import { login } from "@/api/session";
import type { Me } from "@/api/types";
import css from "./LoginPage.module.css";

interface Props {
  /** Known already: only the password is asked for first. */
  username?: string;
  onEntered: (user: Me) => unknown;
}

/** Name and password, and what the server says to them. */
export function LoginFields({ username: known = "", onEntered }: Props) {
  const [username, setUsername] = useState(known);
  const [password, setPassword] = useState("");
  const entry = useMutation({
    mutationFn: () => login(username, password),
    onSuccess: onEntered,
  });

  function enter(event: FormEvent) {
    event.preventDefault();
    entry.mutate();
  }

  return (
    <form onSubmit={enter} className={css.form}>
      <TextInput
        label="User name"
        name="username"
        size="sm"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        autoFocus={!known}
        required
        withAsterisk={false}
        value={username}
        onChange={(event) => setUsername(event.currentTarget.value)}
      />
      <PasswordInput
        label="Password"
        name="password"
        size="sm"
        autoComplete="current-password"
        data-autofocus={known ? true : undefined}
        required
        withAsterisk={false}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
      {entry.error ? (
        <p className={css.error} role="alert">
          {explain(entry.error)}
        </p>
      ) : null}
      <Button type="submit" size="sm" loading={entry.isPending} fullWidth>
        Log in
      </Button>
    </form>
  );
}
