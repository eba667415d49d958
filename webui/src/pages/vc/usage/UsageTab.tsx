import { Button, NumberInput, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import {
  type Budget,
  budget,
  report,
  reportExport,
  type Report,
  setBudget,
  usage,
} from "@/api/usage";
import type { VirtualCluster } from "@/api/types";
import { sumColumns } from "@/features/usage/columns";
import { dayName, lastMonths, monthName, toHours } from "@/features/usage/days";
import { Totals } from "@/features/usage/Totals";
import { UsageByDay } from "@/features/usage/UsageByDay";
import { formatHours, formatPercent, pluralize } from "@/format/numbers";
import { formatDuration } from "@/format/time";
import { EmptyState } from "@/ui/EmptyState";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { notifyError, notifySuccess } from "@/ui/notify";
import { QueryState } from "@/ui/QueryState";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { UsageBar } from "@/ui/UsageBar";
import { ReadNote } from "@/ui/ReadNote";
import { FairnessSection } from "./FairnessSection";
import css from "./UsageTab.module.css";

const MONTHS = 13;

interface Props {
  vc: VirtualCluster;
  admin: boolean;
  month: string | undefined;
}

/** What is used of the budget, how fairly users were served, and for its VC admins the report of a month. */
export function UsageTab({ vc, admin, month }: Props) {
  return (
    <div className={css.page}>
      <BudgetSection name={vc.name} admin={admin} />
      <FairnessSection name={vc.name} />
      {vc.may_manage ? (
        <MonthlyReport name={vc.name} month={month ?? lastMonths(1)[0] ?? ""} />
      ) : (
        <OwnUsage name={vc.name} />
      )}
    </div>
  );
}

function BudgetSection({ name, admin }: { name: string; admin: boolean }) {
  const query = useQuery(budget(name));
  return (
    <section className={css.section} aria-label="Budget">
      <h2 className={css.title}>Budget</h2>
      <QueryState query={query} what="budget" rows={1}>
        {(data) => (
          <>
            <BudgetBar budget={data} />
            {admin ? <BudgetForm key={data.gpu_hours} name={name} budget={data} /> : null}
          </>
        )}
      </QueryState>
    </section>
  );
}

function BudgetBar({
  budget: { gpu_hours, used_s, percent, state, message, until, month },
}: {
  budget: Budget;
}) {
  if (gpu_hours === null) {
    return <p className={css.about}>It may use any number of guaranteed GPU-hours.</p>;
  }
  const used = Math.round(toHours(used_s) * 10) / 10;
  return (
    <>
      <UsageBar
        used={used}
        owned={gpu_hours}
        label={`Guaranteed GPU-hours of ${monthName(month)}`}
      />
      <p className={css.numbers}>
        {formatHours(used)} of {pluralize(gpu_hours, "guaranteed GPU-hour")} in {monthName(month)}
        {percent === null ? "" : ` (${formatPercent(percent)})`}; counted anew from {dayName(until)}
        .
      </p>
      {message ? (
        <p className={css.warning} data-state={state} role="status">
          <Icon name="warning" size={14} /> {message}
        </p>
      ) : null}
    </>
  );
}

function BudgetForm({ name, budget: known }: { name: string; budget: Budget }) {
  const queries = useQueryClient();
  const [hours, setHours] = useState<number | string>(known.gpu_hours ?? "");
  const change = useMutation({
    mutationFn: (value: number | null) => setBudget(name, value),
    onSuccess: (answer) => {
      if (answer) queries.setQueryData(budget(name).queryKey, answer);
      notifySuccess(answer?.gpu_hours === null ? "Budget removed" : "Budget changed");
    },
    onError: (error) => notifyError(error, "The budget was not changed"),
  });
  return (
    <form
      className={css.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (typeof hours === "number") change.mutate(hours);
      }}
    >
      <NumberInput
        label="Guaranteed GPU-hours a month"
        value={hours}
        onChange={setHours}
        min={0}
        max={100_000_000}
        allowDecimal={false}
        thousandSeparator=","
        w={210}
      />
      <Button
        type="submit"
        variant="default"
        loading={change.isPending}
        disabled={typeof hours !== "number" || hours === known.gpu_hours}
      >
        Set
      </Button>
      {known.gpu_hours === null ? null : (
        <Button variant="subtle" onClick={() => change.mutate(null)} disabled={change.isPending}>
          Remove
        </Button>
      )}
    </form>
  );
}

function OwnUsage({ name }: { name: string }) {
  const days = useQuery(usage({ by: "day", vc: name }));
  return (
    <section className={css.section} aria-label="Your usage">
      <div className={css.head}>
        <h2 className={css.title}>Your usage in the last 30 days</h2>
        <LinkButton to="/usage" search={{ vc: name }} variant="default" size="xs">
          More
        </LinkButton>
      </div>
      <QueryState query={days} what="usage" rows={3}>
        {(data) => (
          <>
            <Totals sums={data.total} />
            <UsageByDay rows={data.results} since={data.since} until={data.until} plot="use" />
          </>
        )}
      </QueryState>
    </section>
  );
}

function MonthlyReport({ name, month }: { name: string; month: string }) {
  const navigate = useNavigate({ from: "/virtual-clusters/$name" });
  const query = useQuery(report(name, month));
  const months = lastMonths(MONTHS);
  const choices = months.includes(month) ? months : [month, ...months];
  return (
    <section className={css.section} aria-label={`Report of ${monthName(month)}`}>
      <div className={css.head}>
        <h2 className={css.title}>
          Report of {name}, {monthName(month)}
        </h2>
        <div className={css.tools}>
          <Select
            aria-label="Month"
            value={month}
            data={choices.map((value) => ({ value, label: monthName(value) }))}
            onChange={(value) =>
              void navigate({
                search: (old) => ({ ...old, month: value ?? undefined }),
                replace: true,
              })
            }
            allowDeselect={false}
            w={170}
          />
          <Button
            component="a"
            href={reportExport(name, month)}
            download
            variant="default"
            leftSection={<Icon name="download" size={14} />}
          >
            CSV
          </Button>
          <Button variant="default" onClick={() => window.print()}>
            Print
          </Button>
        </div>
      </div>
      <QueryState query={query} what="report" rows={6}>
        {(data) => <ReportContent report={data} />}
      </QueryState>
    </section>
  );
}

function ReportContent({ report: found }: { report: Report }) {
  const days = useQuery(usage({ by: "day", vc: found.vc, since: found.since, until: found.until }));
  if (found.total.allocated_s === 0) {
    return (
      <EmptyState title={`No GPU time was used in ${monthName(found.month)}`}>
        The report counts the jobs of this virtual cluster that held GPUs.
      </EmptyState>
    );
  }
  return (
    <>
      <Totals sums={found.total} />
      <Capacity report={found} />
      <ReadNote query={days} what="use by day" />
      {days.data ? (
        <UsageByDay rows={days.data.results} since={found.since} until={found.until} plot="use" />
      ) : null}
      <h3 className={css.subtitle}>GPU-hours of each user</h3>
      <DataTable
        label="Efficiency of each user"
        columns={USER_COLUMNS}
        rows={found.users}
        rowId={(row) => row.user}
        file="page"
        minWidth={820}
      />
      {found.idle_jobs.length > 0 ? (
        <>
          <h3 className={css.subtitle}>GPU-hours of the jobs that left most idle</h3>
          <DataTable
            label="Jobs that left most idle"
            columns={JOB_COLUMNS}
            rows={found.idle_jobs}
            rowId={(row) => row.job.id ?? row.job.name}
            file={{ rows: `idle-jobs-of-${found.vc}-${found.month}` }}
            minWidth={820}
          />
        </>
      ) : null}
    </>
  );
}

function Capacity({ report: { owned_s, lent_s, quota_share, waiting } }: { report: Report }) {
  const wait = useMemo(() => waitingText(waiting), [waiting]);
  return (
    <DescriptionList>
      {owned_s === null ? null : (
        <DescriptionItem name="Owned">
          <span className="num">{formatHours(toHours(owned_s))} GPU-h</span>
        </DescriptionItem>
      )}
      {lent_s === null ? null : (
        <DescriptionItem name="Lent to others">
          <span className="num">{formatHours(toHours(lent_s))} GPU-h</span>
        </DescriptionItem>
      )}
      {quota_share === null ? null : (
        <DescriptionItem name="Share of the quota">
          <span className="num">{formatPercent(quota_share)}</span>
        </DescriptionItem>
      )}
      <DescriptionItem name="Waiting time">{wait}</DescriptionItem>
    </DescriptionList>
  );
}

function waitingText({ jobs, p50_s, p95_s }: Report["waiting"]): string {
  if (p50_s === null || p95_s === null) return "no job was submitted and started";
  return `${formatDuration(p50_s)} for half of ${pluralize(jobs, "job")}, ${formatDuration(p95_s)} for 95%`;
}

type ReportUser = Report["users"][number];
type ReportJob = Report["idle_jobs"][number];

const USER_COLUMNS: Column<ReportUser>[] = [
  {
    id: "user",
    header: "User",
    width: "minmax(110px, 1fr)",
    cell: (row) => <b>{row.user}</b>,
    sortValue: (row) => row.user,
  },
  {
    id: "efficiency",
    header: "Efficiency",
    width: "minmax(130px, 1fr)",
    cell: (row) => efficiency(row.gpus, row.utilization),
    sortValue: (row) => row.utilization,
    optional: "phone",
  },
  ...sumColumns<ReportUser>(),
];

const JOB_COLUMNS: Column<ReportJob>[] = [
  {
    id: "job",
    header: "Job",
    width: "minmax(130px, 1.4fr)",
    cell: (row) =>
      row.job.id ? (
        <Link to="/jobs/$id" params={{ id: row.job.id }} className={css.job}>
          {row.job.name}
        </Link>
      ) : (
        row.job.name
      ),
    sortValue: (row) => row.job.name,
  },
  {
    id: "user",
    header: "User",
    width: "minmax(80px, 0.7fr)",
    cell: (row) => row.user,
    sortValue: (row) => row.user,
    optional: "phone",
  },
  {
    id: "efficiency",
    header: "Efficiency",
    width: "minmax(130px, 1fr)",
    cell: (row) => efficiency(row.gpus, row.utilization),
    sortValue: (row) => row.utilization,
    optional: true,
  },
  ...sumColumns<ReportJob>(),
];

/** "asked 8 GPUs, used 11%" */
function efficiency(gpus: number | null, utilization: number | null): string {
  const asked = gpus ? `asked ${pluralize(gpus, "GPU")}, ` : "";
  return utilization === null
    ? `${asked}use unknown`
    : `${asked}used ${formatPercent(utilization)}`;
}
