import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { SortingState } from "@tanstack/react-table";
import { type ReactNode, useMemo } from "react";
import { allTokens, revokeAnyToken } from "@/api/allTokens";
import { me } from "@/api/session";
import type { OwnedToken } from "@/api/types";
import { SCOPE_LABELS, dayFormat } from "@/features/tokens/scopes";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyPage, EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FilterInput } from "@/ui/FilterInput";
import { PageHeader } from "@/ui/PageHeader";
import { Pagination } from "@/ui/Pagination";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import css from "./admin.module.css";

/** The API tokens of all users, without the tokens themselves. */
export function TokensPage(): ReactNode {
  const { data: user } = useQuery(me);
  const search = useSearch({ from: "/shell/tokens" });
  const navigate = useNavigate({ from: "/tokens" });
  const list = useQuery({
    ...allTokens(search.user, search.order, search.cursor),
    enabled: user?.is_admin ?? false,
  });
  const go = (cursor: string | undefined) => void navigate({ search: { ...search, cursor } });
  const onFirstPage = search.cursor ? () => go(undefined) : undefined;
  const columns = useMemo(() => tokenColumns(), []);
  if (user && !user.is_admin) {
    return (
      <EmptyState page title="For administrators only">
        Your own tokens are in the{" "}
        <Link to="/settings/$section" params={{ section: "tokens" }} className="link">
          settings
        </Link>
        .
      </EmptyState>
    );
  }
  return (
    <>
      <PageHeader title="API tokens" note="Of all users, service accounts and jobs">
        <ExportButton list="tokens" filter={{ user: search.user, ordering: search.order }} />
      </PageHeader>
      <search className={css.filter} aria-label="Filter the tokens">
        <FilterInput
          label="User name of the owner"
          placeholder="Owner"
          icon="user"
          value={search.user ?? ""}
          onChange={(owner) =>
            void navigate({
              search: { ...search, user: owner || undefined, cursor: undefined },
              replace: true,
            })
          }
        />
      </search>
      <QueryState query={list} what="list of tokens" onFirstPage={onFirstPage}>
        {(page) =>
          page.results.length === 0 && onFirstPage ? (
            <EmptyPage onFirstPage={onFirstPage} />
          ) : page.results.length === 0 ? (
            <EmptyState title={search.user ? "No tokens" : "No tokens yet"}>
              {search.user
                ? `No user named ${search.user} has a token.`
                : "Users make tokens in their settings, VC admins for service accounts."}
            </EmptyState>
          ) : (
            <div className={css.list} data-stale={list.isPlaceholderData || undefined}>
              <DataTable
                label="API tokens"
                columns={columns}
                rows={page.results}
                rowId={(each) => each.id}
                file="page"
                sorting={sortingOf(search.order)}
                onSortingChange={([by]) =>
                  void navigate({
                    search: { ...search, order: orderOf(by), cursor: undefined },
                    replace: true,
                  })
                }
                minWidth={860}
              />
            </div>
          )
        }
      </QueryState>
      {list.data ? <Pagination page={list.data} onGo={go} /> : null}
    </>
  );
}

const NEWEST_FIRST = "-created_at";

function sortingOf(order = NEWEST_FIRST): SortingState {
  return [{ id: order.replace(/^-/, ""), desc: order.startsWith("-") }];
}

function orderOf(by: SortingState[number] | undefined): string | undefined {
  const order = by ? (by.desc ? "-" : "") + by.id : NEWEST_FIRST;
  return order === NEWEST_FIRST ? undefined : order;
}

const KINDS: Record<OwnedToken["kind"], string> = {
  user: "user",
  service_account: "service account",
  job: "job",
};

// Ordered by the server: what `sortValue` returns only marks a column as one to order by.
function tokenColumns(): Column<OwnedToken>[] {
  return [
    {
      id: "owner",
      header: "Owner",
      width: "minmax(84px, 1fr)",
      cell: (token) => <b className={css.strong}>{token.owner}</b>,
      sortValue: (token) => token.owner,
    },
    {
      id: "kind",
      header: "Made for",
      width: "120px",
      optional: "phone",
      cell: (token) => KINDS[token.kind],
    },
    {
      id: "name",
      header: "Name",
      width: "minmax(84px, 1.4fr)",
      cell: (token) =>
        token.job_id ? (
          <Link to="/jobs/$id" params={{ id: token.job_id }}>
            {token.name}
          </Link>
        ) : (
          <>
            {token.name} <span className="dim">…{token.last4}</span>
          </>
        ),
      sortValue: (token) => token.name,
    },
    {
      id: "scope",
      header: "Scope",
      width: "96px",
      cell: (token) => SCOPE_LABELS[token.scope],
    },
    {
      id: "created_at",
      header: "Created",
      width: "100px",
      optional: "phone",
      cell: (token) => <RelativeTime at={token.created_at} />,
      sortValue: (token) => token.created_at,
    },
    {
      id: "used",
      header: "Last used",
      width: "100px",
      optional: "phone",
      cell: ({ last_used_at: at }) =>
        at ? <RelativeTime at={at} /> : <span className="dim">never</span>,
    },
    {
      id: "expires",
      header: "Ends",
      width: "110px",
      optional: "phone",
      cell: (token) => end(token),
    },
    {
      id: "actions",
      sticky: true,
      header: "Change",
      hiddenHeader: true,
      width: "44px",
      align: "end",
      cell: (token) => <Revoke token={token} />,
    },
  ];
}

function end({ expires_at, kind }: OwnedToken) {
  if (expires_at) return dayFormat.format(new Date(expires_at));
  return <span className="dim">{kind === "job" ? "with its job" : "never"}</span>;
}

function Revoke({ token }: { token: OwnedToken }) {
  const queries = useQueryClient();
  const revoking = useMutation({
    mutationFn: () => revokeAnyToken(token.id),
    onError: (error) => notifyError(error, "The token was not revoked"),
    onSettled: () => queries.invalidateQueries({ queryKey: ["all-tokens"] }),
  });
  return (
    <DeleteIcon
      size="sm"
      label={`Revoke ${token.name} of ${token.owner}`}
      busy={revoking.isPending}
      question={`Revoke ${token.name} of ${token.owner}?`}
      explanation="Whatever uses it is refused within a second, and its live connections are closed."
      verb="Revoke"
      onConfirm={() => revoking.mutate()}
    />
  );
}
