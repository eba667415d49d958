import { Button } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { errorMessage } from "@/api/errors";
import { unsubscribe } from "@/api/notifications";
import css from "@/features/auth/LoginForm.module.css";
import { LinkButton } from "@/ui/LinkButton";
import { LoginFrame } from "./LoginFrame";

/** Ends e-mails of one kind: the page of the link in them. It asks first, because programs that
 * look for viruses open links. */
export function UnsubscribePage() {
  useDocumentTitle("Unsubscribe · Skep");
  const { token } = useSearch({ from: "/unsubscribe" });
  const ending = useMutation({ mutationFn: () => unsubscribe(token) });
  return (
    <LoginFrame name="Unsubscribe">
      <div className={css.form} role="status">
        {ending.data ? (
          <p>You get no more e-mails of this kind: {ending.data.description}</p>
        ) : (
          <>
            <p>Do you want no more e-mails of the kind that brought you here?</p>
            {ending.error ? (
              <p className={css.error} role="alert">
                {errorMessage(ending.error)}
              </p>
            ) : null}
            <Button
              size="sm"
              fullWidth
              disabled={!token}
              loading={ending.isPending}
              onClick={() => ending.mutate()}
            >
              Unsubscribe
            </Button>
          </>
        )}
        <LinkButton
          variant="default"
          size="sm"
          to="/settings/$section"
          params={{ section: "notifications" }}
        >
          All notification settings
        </LinkButton>
      </div>
    </LoginFrame>
  );
}
