import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { type ApiError, errorMessage, isApiError } from "@/api/errors";
import { browserHasKeys, type KeyChallenge, logInByPasskey, signWithKey } from "@/api/securityKeys";
import { login } from "@/api/session";
import type { Me } from "@/api/types";
import { CodeInput } from "./CodeInput";
import css from "./LoginForm.module.css";

interface Props {
  /** Known already: only the password is asked for first. */
  username?: string;
  onEntered: (user: Me) => unknown;
}

/** Name and password, then the code where the user has multi-factor authentication. */
export function LoginForm({ username: known = "", onEntered }: Props) {
  const [username, setUsername] = useState(known);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [asked, setAsked] = useState(false);
  const [hasKey, setHasKey] = useState(false);
  const entry = useMutation({
    mutationFn: async (withKey?: KeyChallenge) => {
      const key = withKey ? await signWithKey(withKey) : undefined;
      return login(username, password, key ? "" : code, key);
    },
    onSuccess: onEntered,
    onError: (error) => {
      if (!isApiError(error)) return;
      if (error.code === "mfa_required") askForSecondFactor(error);
      if (error.code === "login_failed") setAsked(false);
      setCode("");
    },
  });
  const passkey = useMutation({ mutationFn: logInByPasskey, onSuccess: onEntered });
  const failed = passkey.error ?? entry.error;
  const refusal = isApiError(failed) && failed.code === "mfa_required" ? null : failed;

  function askForSecondFactor(error: ApiError) {
    setAsked(true);
    const wanted = error.details["key"] as KeyChallenge | undefined;
    setHasKey(wanted !== undefined);
    if (wanted && browserHasKeys()) entry.mutate(wanted);
  }

  function enter(event: FormEvent) {
    event.preventDefault();
    passkey.reset();
    entry.mutate(undefined);
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
      {asked ? (
        <CodeInput
          value={code}
          onChange={setCode}
          autoFocus
          required={!hasKey}
          description={hasKey ? "Or use your key: leave this empty and log in" : undefined}
        />
      ) : null}
      {refusal ? (
        <p className={css.error} role="alert">
          {errorMessage(refusal)}
        </p>
      ) : null}
      <Button type="submit" size="sm" loading={entry.isPending} fullWidth>
        Log in
      </Button>
      {browserHasKeys() && !asked ? (
        <Button
          variant="default"
          size="sm"
          fullWidth
          loading={passkey.isPending}
          onClick={() => passkey.mutate()}
        >
          Use a passkey
        </Button>
      ) : null}
    </form>
  );
}
