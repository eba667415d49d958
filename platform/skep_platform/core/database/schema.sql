CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;

CREATE FUNCTION public.add_month(parent text, at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    first timestamptz := date_trunc('month', at, 'UTC');
    next timestamptz := date_trunc('month', first + '40 days', 'UTC');
    name text := parent || to_char(first AT TIME ZONE 'UTC', '_YYYY_MM');
    filled boolean;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Rows of this month may be in the default partition already: seen without a lock of all.
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE at >= %L AND at < %L)',
                   parent || '_default', first, next) INTO filled;
    IF filled THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;  -- made meanwhile
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, parent,
                   first, next);
    -- For whoever replicates it: these tables have no primary key.
    EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', name);
    RETURN true;
EXCEPTION WHEN check_violation THEN
    RETURN false;  -- such a row came meanwhile
END $$;

CREATE FUNCTION public.audit_add_default() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    CREATE TABLE audit_entry_default PARTITION OF audit_entry DEFAULT;
    CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit_entry_default
        FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
END $$;

CREATE FUNCTION public.audit_add_month(at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    first timestamptz := date_trunc('month', at, 'UTC');
    name text := 'audit_entry_' || to_char(first AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF audit_entry FOR VALUES FROM (%L) TO (%L)', name,
        audit_first_id(first), audit_first_id(date_trunc('month', first + '40 days', 'UTC')));
    EXECUTE format(
        'CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON %I '
        'FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()', name);
    RETURN true;
EXCEPTION WHEN check_violation THEN
    RETURN false;  -- entries of this month are in the default partition already
END $$;

CREATE FUNCTION public.audit_first_id(at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0')
            || repeat('0', 20))::uuid
$$;

CREATE FUNCTION public.audit_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'The audit log is append-only: % of % is refused.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Old months are dropped by the retention task only.';
END $$;

CREATE FUNCTION public.scheduling_add_service() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_attainedservice AS known (job_id, gpu_s, released_at)
    SELECT a.job_id, sum(
    jsonb_array_length(a.gpu_uuids)
        * greatest(coalesce(extract(epoch FROM a.released_at - a.started_at), 0), 0)
)::float8, max(a.released_at)
      FROM before JOIN after AS a USING (id)
     WHERE before.released_at IS NULL AND a.released_at IS NOT NULL
     GROUP BY a.job_id ORDER BY a.job_id
        ON CONFLICT (job_id) DO UPDATE
       SET gpu_s = known.gpu_s + excluded.gpu_s,
           released_at = greatest(known.released_at, excluded.released_at);
    -- Only a repair by hand changes an attempt that was released before: sum all of its job anew.
    INSERT INTO scheduling_attainedservice AS known (job_id, gpu_s, released_at)
    SELECT mended.job_id, coalesce(sum(
    jsonb_array_length(a.gpu_uuids)
        * greatest(coalesce(extract(epoch FROM a.released_at - a.started_at), 0), 0)
), 0)::float8, max(a.released_at)
      FROM (SELECT DISTINCT before.job_id
              FROM before JOIN after USING (id)
             WHERE before.released_at IS NOT NULL
               AND (before.started_at, before.released_at, before.gpu_uuids)
                   IS DISTINCT FROM (after.started_at, after.released_at, after.gpu_uuids)
           ) AS mended
      LEFT JOIN jobs_taskattempt a ON a.job_id = mended.job_id AND a.released_at IS NOT NULL
     GROUP BY mended.job_id ORDER BY mended.job_id
        ON CONFLICT (job_id) DO UPDATE
       SET gpu_s = excluded.gpu_s, released_at = excluded.released_at;
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_budget() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT pg_current_xact_id()::text::bigint, 'gang', id::text, statement_timestamp()
      FROM jobs_job
     WHERE vc_id = COALESCE(NEW.vc_id, OLD.vc_id)
       AND state IN ('WAITING', 'RUNNING', 'STOPPING')
       AND (placed_at IS NULL OR downgraded IS NOT NULL);
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_device() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'node', node::text, statement_timestamp()
      FROM unnest(ARRAY[OLD.node_id, NEW.node_id]) AS node WHERE node IS NOT NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_new_devices() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'node', node_id::text, statement_timestamp()
      FROM appeared;
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_placed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'gang', job_id::text, statement_timestamp()
      FROM placed;
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_released() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'gang', after.job_id::text,
           statement_timestamp()
      FROM before JOIN after USING (id)
     WHERE before.released_at IS DISTINCT FROM after.released_at;
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_reservation() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, 'gang', COALESCE(NEW.job_id, OLD.job_id)::text,
            statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_row() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, TG_ARGV[0], COALESCE(NEW.id, OLD.id)::text,
            statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION public.scheduling_log_statement() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, TG_ARGV[0], '', statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION public.usage_lock() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(23790);
    RETURN NULL;
END $$;

CREATE FUNCTION public.usage_roll_up_delete() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    
    WITH n AS (
        SELECT day, user_id, vc_id, gpu_model, guaranteed, sum(allocated_us) AS allocated_us,
               sum(used_us) AS used_us, sum(known_us) AS known_us
          FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, -allocated_us AS allocated_us, -used_us AS used_us, -known_us AS known_us FROM removed) changes GROUP BY 1, 2, 3, 4, 5
        HAVING sum(allocated_us) <> 0 OR sum(used_us) <> 0 OR sum(known_us) <> 0
    ), given (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us) AS (
        SELECT s.monthly, s.day, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint
          FROM n
    CROSS JOIN LATERAL (VALUES (false, n.day), (true, date_trunc('month', n.day::timestamp)::date))
          AS s(monthly, day)
    CROSS JOIN LATERAL (VALUES (n.user_id, n.vc_id), (NULL, n.vc_id), (NULL, NULL))
          AS g(user_id, vc_id)
         GROUP BY 1, 2, 3, 4, 5, 6
    )
    
    UPDATE usage_usagerollup r
       SET allocated_us = r.allocated_us + g.allocated_us, used_us = r.used_us + g.used_us,
           known_us = r.known_us + g.known_us
      FROM given g
     WHERE r.monthly = g.monthly AND r.day = g.day AND r.gpu_model = g.gpu_model
       AND r.guaranteed = g.guaranteed AND r.vc_id IS NOT DISTINCT FROM g.vc_id
       AND r.user_id IS NOT DISTINCT FROM g.user_id;
    PERFORM usage_sum_jobs(ARRAY(
        SELECT DISTINCT job_id FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, -allocated_us AS allocated_us, -used_us AS used_us, -known_us AS known_us FROM removed) changes WHERE job_id IS NOT NULL));
    RETURN NULL;
END $$;

CREATE FUNCTION public.usage_roll_up_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    
    WITH n AS (
        SELECT day, user_id, vc_id, gpu_model, guaranteed, sum(allocated_us) AS allocated_us,
               sum(used_us) AS used_us, sum(known_us) AS known_us
          FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, allocated_us, used_us, known_us FROM added) changes GROUP BY 1, 2, 3, 4, 5
        HAVING sum(allocated_us) <> 0 OR sum(used_us) <> 0 OR sum(known_us) <> 0
    ), given (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us) AS (
        SELECT s.monthly, s.day, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint
          FROM n
    CROSS JOIN LATERAL (VALUES (false, n.day), (true, date_trunc('month', n.day::timestamp)::date))
          AS s(monthly, day)
    CROSS JOIN LATERAL (VALUES (n.user_id, n.vc_id), (NULL, n.vc_id), (NULL, NULL))
          AS g(user_id, vc_id)
         GROUP BY 1, 2, 3, 4, 5, 6
    )
    
    INSERT INTO usage_usagerollup AS r (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us)
    SELECT * FROM given
        ON CONFLICT (monthly, day, vc_id, user_id, gpu_model, guaranteed) DO UPDATE
       SET allocated_us = r.allocated_us + excluded.allocated_us,
           used_us = r.used_us + excluded.used_us, known_us = r.known_us + excluded.known_us;
    PERFORM usage_sum_jobs(ARRAY(
        SELECT DISTINCT job_id FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, allocated_us, used_us, known_us FROM added) changes WHERE job_id IS NOT NULL));
    RETURN NULL;
END $$;

CREATE FUNCTION public.usage_roll_up_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    
    WITH n AS (
        SELECT day, user_id, vc_id, gpu_model, guaranteed, sum(allocated_us) AS allocated_us,
               sum(used_us) AS used_us, sum(known_us) AS known_us
          FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, allocated_us, used_us, known_us FROM added UNION ALL SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, -allocated_us AS allocated_us, -used_us AS used_us, -known_us AS known_us FROM removed) changes GROUP BY 1, 2, 3, 4, 5
        HAVING sum(allocated_us) <> 0 OR sum(used_us) <> 0 OR sum(known_us) <> 0
    ), given (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us) AS (
        SELECT s.monthly, s.day, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint
          FROM n
    CROSS JOIN LATERAL (VALUES (false, n.day), (true, date_trunc('month', n.day::timestamp)::date))
          AS s(monthly, day)
    CROSS JOIN LATERAL (VALUES (n.user_id, n.vc_id), (NULL, n.vc_id), (NULL, NULL))
          AS g(user_id, vc_id)
         GROUP BY 1, 2, 3, 4, 5, 6
    )
    
    INSERT INTO usage_usagerollup AS r (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us)
    SELECT * FROM given
        ON CONFLICT (monthly, day, vc_id, user_id, gpu_model, guaranteed) DO UPDATE
       SET allocated_us = r.allocated_us + excluded.allocated_us,
           used_us = r.used_us + excluded.used_us, known_us = r.known_us + excluded.known_us;
    PERFORM usage_sum_jobs(ARRAY(
        SELECT DISTINCT job_id FROM (SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, allocated_us, used_us, known_us FROM added UNION ALL SELECT day, user_id, vc_id, gpu_model, guaranteed, job_id, -allocated_us AS allocated_us, -used_us AS used_us, -known_us AS known_us FROM removed) changes WHERE job_id IS NOT NULL));
    RETURN NULL;
END $$;

CREATE FUNCTION public.usage_sum_day(given date) RETURNS void
    LANGUAGE sql
    AS $$
DELETE FROM usage_usagerollup WHERE NOT monthly AND day = given;
INSERT INTO usage_usagerollup (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us)
SELECT false, given, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint
  FROM usage_usageday n
    CROSS JOIN LATERAL (VALUES (n.user_id, n.vc_id), (NULL, n.vc_id), (NULL, NULL))
          AS g(user_id, vc_id)
 WHERE n.day = given GROUP BY 3, 4, 5, 6
$$;

CREATE FUNCTION public.usage_sum_jobs(jobs uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
WITH sums AS (
    SELECT job_id, max(user_id) AS user_id, (array_agg(vc_id))[1] AS vc_id,
           CASE WHEN min(gpu_model) = max(gpu_model) THEN min(gpu_model) END AS gpu_model,
           date_trunc('month', min(day)::timestamp)::date AS month, min(day) AS first_day,
           max(day) AS last_day, sum(allocated_us)::bigint AS allocated_us,
           coalesce(sum(allocated_us) FILTER (WHERE guaranteed), 0)::bigint AS guaranteed_us,
           sum(used_us)::bigint AS used_us, sum(known_us)::bigint AS known_us
      FROM usage_usageday WHERE job_id = ANY(jobs) GROUP BY 1
), gone AS (
    DELETE FROM usage_jobusage WHERE job_id = ANY(jobs) AND job_id NOT IN (SELECT job_id FROM sums)
)
INSERT INTO usage_jobusage AS u (job_id, user_id, vc_id, gpu_model, month, first_day, last_day,
                                 allocated_us, guaranteed_us, used_us, known_us)
SELECT * FROM sums
    ON CONFLICT (job_id) DO UPDATE
   SET gpu_model = excluded.gpu_model, month = excluded.month, first_day = excluded.first_day,
       last_day = excluded.last_day, allocated_us = excluded.allocated_us,
       guaranteed_us = excluded.guaranteed_us, used_us = excluded.used_us,
       known_us = excluded.known_us
$$;

CREATE FUNCTION public.usage_sum_month(given date) RETURNS void
    LANGUAGE sql
    AS $$
DELETE FROM usage_usagerollup WHERE monthly AND day = given;
INSERT INTO usage_usagerollup (monthly, day, vc_id, user_id, gpu_model, guaranteed, allocated_us, used_us, known_us)
SELECT true, given, n.vc_id, n.user_id, n.gpu_model, n.guaranteed, sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint
  FROM usage_usagerollup n
 WHERE NOT n.monthly AND n.day >= given AND n.day < (given + interval '1 month')::date
 GROUP BY 3, 4, 5, 6
$$;

CREATE TABLE public.account_emailaddress (
    id integer NOT NULL,
    email character varying(254) NOT NULL,
    verified boolean NOT NULL,
    "primary" boolean NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.account_emailaddress ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailaddress_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.account_emailconfirmation (
    id integer NOT NULL,
    created timestamp with time zone NOT NULL,
    sent timestamp with time zone,
    key character varying(64) NOT NULL,
    email_address_id integer NOT NULL
);

ALTER TABLE public.account_emailconfirmation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailconfirmation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_accountmail (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    kind character varying(8) NOT NULL,
    whom character varying(254) NOT NULL,
    address character varying(64) NOT NULL,
    due_at timestamp with time zone NOT NULL,
    user_id bigint
);

CREATE TABLE public.accounts_apitoken (
    digest character varying(128) NOT NULL,
    token_key character varying(25) NOT NULL,
    created timestamp with time zone NOT NULL,
    expiry timestamp with time zone,
    public_id uuid NOT NULL,
    name character varying(100) NOT NULL,
    last4 character varying(4) NOT NULL,
    user_id bigint NOT NULL,
    last_used_at timestamp with time zone,
    scope character varying(8) NOT NULL,
    job_id uuid,
    vc_id uuid
);

CREATE TABLE public.accounts_browsersession (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    session_key character varying(40) NOT NULL,
    sign_outs integer NOT NULL,
    address character varying(64) NOT NULL,
    user_agent character varying(200) NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    user_id bigint NOT NULL,
    CONSTRAINT accounts_browsersession_sign_outs_check CHECK ((sign_outs >= 0))
);

CREATE TABLE public.accounts_devicelogin (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    device_digest character varying(64) NOT NULL,
    code_digest character varying(64) NOT NULL,
    name character varying(100) NOT NULL,
    scope character varying(8) NOT NULL,
    expires_in_s integer,
    address character varying(64) NOT NULL,
    user_agent character varying(200) NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    polled_at timestamp with time zone,
    allowed boolean,
    user_id bigint,
    CONSTRAINT accounts_devicelogin_expires_in_s_check CHECK ((expires_in_s >= 0))
);

CREATE TABLE public.accounts_group (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    description character varying(500) NOT NULL,
    external_name character varying(255) NOT NULL
);

CREATE TABLE public.accounts_groupmember (
    id bigint NOT NULL,
    external boolean NOT NULL,
    group_id uuid NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_groupmember ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_groupmember_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_sshkey (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    public_key character varying(4096) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    user_id bigint NOT NULL
);

CREATE TABLE public.accounts_user (
    id bigint NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    sign_outs integer NOT NULL,
    deleted_at timestamp with time zone,
    is_service_account boolean DEFAULT false NOT NULL,
    notified_events integer,
    confirmed_email character varying(254) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT accounts_user_notified_events_check CHECK ((notified_events >= 0)),
    CONSTRAINT accounts_user_sign_outs_check CHECK ((sign_outs >= 0))
);

CREATE TABLE public.accounts_user_groups (
    id integer NOT NULL,
    user_id bigint NOT NULL,
    group_id integer NOT NULL
);

ALTER TABLE public.accounts_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.accounts_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_user_user_permissions (
    id integer NOT NULL,
    user_id bigint NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.accounts_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.audit_entry (
    id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    action character varying(64) NOT NULL,
    outcome character varying(8) NOT NULL,
    actor_kind character varying(9) NOT NULL,
    actor_id bigint,
    actor_name character varying(255) NOT NULL,
    token_id uuid,
    token_name character varying(100) NOT NULL,
    token_scope character varying(8) NOT NULL,
    address character varying(64) NOT NULL,
    user_agent character varying(200) NOT NULL,
    request_id character varying(64) NOT NULL,
    target_type character varying(32) NOT NULL,
    target_id character varying(64) NOT NULL,
    target_name character varying(255) NOT NULL,
    vc_id uuid,
    vc_name character varying(63) NOT NULL,
    before jsonb,
    after jsonb,
    facts jsonb NOT NULL
)
PARTITION BY RANGE (id);

CREATE TABLE public.audit_entry_default (
    id uuid CONSTRAINT audit_entry_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT audit_entry_at_not_null NOT NULL,
    action character varying(64) CONSTRAINT audit_entry_action_not_null NOT NULL,
    outcome character varying(8) CONSTRAINT audit_entry_outcome_not_null NOT NULL,
    actor_kind character varying(9) CONSTRAINT audit_entry_actor_kind_not_null NOT NULL,
    actor_id bigint,
    actor_name character varying(255) CONSTRAINT audit_entry_actor_name_not_null NOT NULL,
    token_id uuid,
    token_name character varying(100) CONSTRAINT audit_entry_token_name_not_null NOT NULL,
    token_scope character varying(8) CONSTRAINT audit_entry_token_scope_not_null NOT NULL,
    address character varying(64) CONSTRAINT audit_entry_address_not_null NOT NULL,
    user_agent character varying(200) CONSTRAINT audit_entry_user_agent_not_null NOT NULL,
    request_id character varying(64) CONSTRAINT audit_entry_request_id_not_null NOT NULL,
    target_type character varying(32) CONSTRAINT audit_entry_target_type_not_null NOT NULL,
    target_id character varying(64) CONSTRAINT audit_entry_target_id_not_null NOT NULL,
    target_name character varying(255) CONSTRAINT audit_entry_target_name_not_null NOT NULL,
    vc_id uuid,
    vc_name character varying(63) CONSTRAINT audit_entry_vc_name_not_null NOT NULL,
    before jsonb,
    after jsonb,
    facts jsonb CONSTRAINT audit_entry_facts_not_null NOT NULL
);

CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);

ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_group_permissions (
    id integer NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);

ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cluster_announcement (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    message character varying(500) NOT NULL,
    severity character varying(16) NOT NULL,
    expires_at timestamp with time zone,
    created_by_id bigint
);

CREATE TABLE public.cluster_announcementdismissal (
    id bigint NOT NULL,
    announcement_id uuid NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.cluster_announcementdismissal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cluster_announcementdismissal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cluster_celllayout (
    id bigint NOT NULL,
    text text NOT NULL,
    revision bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT cluster_celllayout_revision_check CHECK ((revision >= 0))
);

ALTER TABLE public.cluster_celllayout ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cluster_celllayout_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cluster_controlplane (
    id bigint NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    since timestamp with time zone NOT NULL
);

ALTER TABLE public.cluster_controlplane ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cluster_controlplane_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cluster_device (
    uuid character varying(80) NOT NULL,
    model character varying(100) NOT NULL,
    memory_mb integer NOT NULL,
    index smallint NOT NULL,
    pci_bus_id character varying(32) NOT NULL,
    numa_node smallint,
    health character varying(16) NOT NULL,
    problem character varying(200) NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    node_id uuid NOT NULL,
    CONSTRAINT cluster_device_index_check CHECK ((index >= 0)),
    CONSTRAINT cluster_device_memory_mb_check CHECK ((memory_mb >= 0))
);

CREATE TABLE public.cluster_jointoken (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    token_hash character varying(64) NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    uses_left integer NOT NULL,
    created_by_id bigint,
    node_name character varying(63) NOT NULL,
    CONSTRAINT cluster_jointoken_uses_left_check CHECK ((uses_left >= 0))
);

CREATE TABLE public.cluster_maintenancewindow (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    reason character varying(300) NOT NULL,
    state character varying(16) NOT NULL,
    was_cordoned boolean NOT NULL,
    created_by_id bigint,
    node_id uuid NOT NULL,
    was_draining boolean DEFAULT false NOT NULL
);

CREATE TABLE public.cluster_node (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    state character varying(16) NOT NULL,
    cordoned boolean NOT NULL,
    address character varying(255) NOT NULL,
    cpu_millis integer NOT NULL,
    memory_mb integer NOT NULL,
    port_first integer NOT NULL,
    port_last integer NOT NULL,
    driver_version character varying(64) NOT NULL,
    engine_version character varying(64) NOT NULL,
    agent_version character varying(64) NOT NULL,
    runtime character varying(16) NOT NULL,
    topology jsonb NOT NULL,
    labels jsonb NOT NULL,
    credential_hash character varying(64) NOT NULL,
    instance_id character varying(64) NOT NULL,
    session_epoch bigint NOT NULL,
    connected boolean NOT NULL,
    last_heartbeat_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    desired_revision bigint NOT NULL,
    admin_labels jsonb NOT NULL,
    draining boolean NOT NULL,
    reported_labels jsonb NOT NULL,
    cordon_reason character varying(300) NOT NULL,
    inventory_digest character varying(64) NOT NULL,
    memory_id character varying(64) NOT NULL,
    gang_network boolean NOT NULL,
    network_problem character varying(300) NOT NULL,
    disk_free_mb integer,
    disk_total_mb integer,
    log_bytes_waiting bigint NOT NULL,
    components jsonb NOT NULL,
    rdma boolean NOT NULL,
    inner_mounts boolean DEFAULT false NOT NULL,
    s3_mounts boolean DEFAULT false NOT NULL,
    checks_needed smallint DEFAULT 0 NOT NULL,
    maintenance_from timestamp with time zone,
    maintenance_until timestamp with time zone,
    peer_checks boolean DEFAULT false NOT NULL,
    warnings jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT cluster_node_checks_needed_check CHECK ((checks_needed >= 0)),
    CONSTRAINT cluster_node_cpu_millis_check CHECK ((cpu_millis >= 0)),
    CONSTRAINT cluster_node_desired_revision_check CHECK ((desired_revision >= 0)),
    CONSTRAINT cluster_node_disk_free_mb_check CHECK ((disk_free_mb >= 0)),
    CONSTRAINT cluster_node_disk_total_mb_check CHECK ((disk_total_mb >= 0)),
    CONSTRAINT cluster_node_log_bytes_waiting_check CHECK ((log_bytes_waiting >= 0)),
    CONSTRAINT cluster_node_memory_mb_check CHECK ((memory_mb >= 0)),
    CONSTRAINT cluster_node_port_first_check CHECK ((port_first >= 0)),
    CONSTRAINT cluster_node_port_last_check CHECK ((port_last >= 0)),
    CONSTRAINT cluster_node_session_epoch_check CHECK ((session_epoch >= 0))
);

CREATE TABLE public.cluster_nodecheck (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    cause character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    due_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    results jsonb NOT NULL,
    node_id uuid NOT NULL,
    peers jsonb,
    peers_until timestamp with time zone
);

CREATE TABLE public.cluster_nodefault (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    code integer NOT NULL,
    name character varying(100) NOT NULL,
    evidence character varying(500) NOT NULL,
    attempt_id uuid NOT NULL,
    node_id uuid NOT NULL,
    from_log boolean NOT NULL,
    witness uuid
);

ALTER TABLE public.cluster_nodefault ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cluster_nodefault_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.core_event (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    subject_type character varying(16) NOT NULL,
    subject_id character varying(64) NOT NULL,
    kind character varying(64) NOT NULL,
    message text NOT NULL,
    data jsonb NOT NULL,
    actor character varying(150) NOT NULL,
    count integer DEFAULT 1 NOT NULL,
    first_at timestamp with time zone,
    notify boolean DEFAULT false NOT NULL,
    CONSTRAINT core_event_count_check CHECK ((count >= 0))
);

ALTER TABLE public.core_event ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.core_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.core_leadership (
    role character varying(32) NOT NULL,
    owner character varying(128) NOT NULL,
    term bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT core_leadership_term_check CHECK ((term >= 0))
);

CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);

ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_migrations (
    id integer NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);

ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);

CREATE TABLE public.files_archive (
    id integer NOT NULL,
    sha256 character varying(64) NOT NULL,
    size bigint NOT NULL,
    unpacked_size bigint NOT NULL,
    files integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone NOT NULL,
    owner_id bigint NOT NULL,
    CONSTRAINT files_archive_files_check CHECK ((files >= 0)),
    CONSTRAINT files_archive_size_check CHECK ((size >= 0)),
    CONSTRAINT files_archive_unpacked_size_check CHECK ((unpacked_size >= 0))
);

ALTER TABLE public.files_archive ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.files_archive_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.images_image (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    reference character varying(512) NOT NULL,
    description character varying(500) NOT NULL,
    created_by_id bigint,
    cuda_version character varying(20) NOT NULL,
    digest character varying(80) NOT NULL,
    framework character varying(60) NOT NULL,
    inspected_at timestamp with time zone,
    managed_by_id uuid,
    min_driver character varying(32) NOT NULL,
    problem character varying(300) NOT NULL,
    size bigint,
    CONSTRAINT images_image_size_check CHECK ((size >= 0))
);

CREATE TABLE public.images_image_virtual_clusters (
    id integer NOT NULL,
    image_id uuid NOT NULL,
    virtualcluster_id uuid NOT NULL
);

ALTER TABLE public.images_image_virtual_clusters ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.images_image_virtual_clusters_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.images_imagerule (
    id bigint NOT NULL,
    pattern character varying(512) NOT NULL,
    vc_id uuid NOT NULL
);

ALTER TABLE public.images_imagerule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.images_imagerule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.images_nodeimage (
    id bigint NOT NULL,
    reference character varying(512) NOT NULL,
    size bigint NOT NULL,
    node_id uuid NOT NULL,
    CONSTRAINT images_nodeimage_size_check CHECK ((size >= 0))
);

ALTER TABLE public.images_nodeimage ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.images_nodeimage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.images_nodeprefetch (
    id bigint NOT NULL,
    state character varying(16) NOT NULL,
    percent smallint NOT NULL,
    done_bytes bigint NOT NULL,
    total_bytes bigint,
    message character varying(300) NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    node_id uuid NOT NULL,
    prefetch_id uuid NOT NULL,
    CONSTRAINT images_nodeprefetch_done_bytes_check CHECK ((done_bytes >= 0)),
    CONSTRAINT images_nodeprefetch_percent_check CHECK ((percent >= 0)),
    CONSTRAINT images_nodeprefetch_total_bytes_check CHECK ((total_bytes >= 0))
);

ALTER TABLE public.images_nodeprefetch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.images_nodeprefetch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.images_prefetch (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    image character varying(63) NOT NULL,
    reference character varying(512) NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    created_by_id bigint,
    vc_id uuid
);

CREATE TABLE public.images_registrycredential (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    registry character varying(255) NOT NULL,
    username character varying(255) NOT NULL,
    sealed bytea NOT NULL,
    user_id bigint,
    vc_id uuid,
    CONSTRAINT registry_credential_has_one_holder CHECK ((((user_id IS NULL) AND (vc_id IS NOT NULL)) OR ((user_id IS NOT NULL) AND (vc_id IS NULL))))
);

CREATE TABLE public.interactive_app (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(32) NOT NULL,
    type character varying(16) NOT NULL,
    label character varying(32) NOT NULL,
    role character varying(255) NOT NULL,
    port integer,
    path character varying(500) NOT NULL,
    idle_stop boolean NOT NULL,
    shared boolean NOT NULL,
    log_dir character varying(500) NOT NULL,
    launched_attempt uuid,
    ready_attempt uuid,
    ready_at timestamp with time zone,
    problem character varying(500) NOT NULL,
    probed_at timestamp with time zone,
    active_at timestamp with time zone,
    warned_at timestamp with time zone,
    job_id uuid NOT NULL,
    CONSTRAINT interactive_app_port_check CHECK ((port >= 0))
);

CREATE TABLE public.interactive_appsession (
    id bigint NOT NULL,
    code_digest character varying(64) NOT NULL,
    state_digest character varying(64) NOT NULL,
    token_digest character varying(64),
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    app_id uuid NOT NULL,
    login_id character varying(40) NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.interactive_appsession ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.interactive_appsession_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_archivedjob (
    id uuid NOT NULL,
    name character varying(255) NOT NULL,
    owner_name character varying(150) NOT NULL,
    vc_name character varying(63) NOT NULL,
    visibility character varying(8) NOT NULL,
    state character varying(16) NOT NULL,
    priority_class character varying(16) NOT NULL,
    gpus integer NOT NULL,
    tasks_total integer NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    archived_at timestamp with time zone NOT NULL,
    record jsonb NOT NULL,
    owner_id bigint,
    vc_id uuid,
    CONSTRAINT jobs_archivedjob_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT jobs_archivedjob_tasks_total_check CHECK ((tasks_total >= 0))
);

CREATE TABLE public.jobs_gangnetwork (
    id bigint NOT NULL,
    index integer NOT NULL,
    vni integer NOT NULL,
    addresses int8range NOT NULL,
    job_id uuid NOT NULL,
    CONSTRAINT jobs_gangnetwork_index_check CHECK ((index >= 0)),
    CONSTRAINT jobs_gangnetwork_vni_check CHECK ((vni >= 0))
);

ALTER TABLE public.jobs_gangnetwork ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_gangnetwork_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_imagesave (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    epoch bigint NOT NULL,
    task character varying(300) NOT NULL,
    reference character varying(512) NOT NULL,
    state character varying(16) NOT NULL,
    percent smallint NOT NULL,
    code character varying(64) NOT NULL,
    message character varying(500) NOT NULL,
    digest character varying(80) NOT NULL,
    size bigint,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    attempt_id uuid,
    created_by_id bigint NOT NULL,
    job_id uuid,
    node_id uuid NOT NULL,
    vc_id uuid NOT NULL,
    CONSTRAINT jobs_imagesave_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT jobs_imagesave_percent_check CHECK ((percent >= 0)),
    CONSTRAINT jobs_imagesave_size_check CHECK ((size >= 0))
);

CREATE TABLE public.jobs_job (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(255) NOT NULL,
    state character varying(16) NOT NULL,
    priority_class character varying(16) NOT NULL,
    priority smallint NOT NULL,
    spec_text text NOT NULL,
    spec jsonb NOT NULL,
    gpus integer NOT NULL,
    tasks_total integer NOT NULL,
    client_token character varying(64) NOT NULL,
    attempt integer NOT NULL,
    placed_at timestamp with time zone,
    not_before timestamp with time zone,
    retries_used integer NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    stop_requested_at timestamp with time zone,
    wait_reason jsonb,
    exit_reason jsonb,
    owner_id bigint NOT NULL,
    vc_id uuid NOT NULL,
    checkpoint_grace_s integer NOT NULL,
    checkpoint_signal character varying(16) NOT NULL,
    downgraded jsonb,
    duration_s integer,
    incremental boolean NOT NULL,
    lazy_preemption boolean NOT NULL,
    pinned_cell character varying(63) NOT NULL,
    preemptible boolean NOT NULL,
    preempting_at timestamp with time zone,
    preemptions integer NOT NULL,
    stop_grace_s integer NOT NULL,
    unplaced integer NOT NULL,
    within character varying(200) NOT NULL,
    avoid_nodes jsonb NOT NULL,
    barrier_s integer NOT NULL,
    begun_at timestamp with time zone,
    deadline_at timestamp with time zone,
    diagnosing_at timestamp with time zone,
    diagnosis jsonb,
    ends_at timestamp with time zone,
    environment jsonb NOT NULL,
    free_retries integer NOT NULL,
    logs_deleted_at timestamp with time zone,
    max_duration_s integer,
    network_mode character varying(8) NOT NULL,
    spec_digest character varying(64) NOT NULL,
    tags character varying(64)[] NOT NULL,
    work_dir character varying(255) NOT NULL,
    use_counted boolean DEFAULT false NOT NULL,
    diagnosis_claimed_until timestamp with time zone,
    visibility character varying(8) DEFAULT ''::character varying NOT NULL,
    failing_retries smallint DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    rdma boolean NOT NULL,
    awaits_dependencies boolean DEFAULT false NOT NULL,
    verdict character varying(16) DEFAULT ''::character varying NOT NULL,
    predicted_s integer,
    retries_ended boolean DEFAULT false NOT NULL,
    depth integer DEFAULT 0 NOT NULL,
    parent_id uuid,
    root_id uuid,
    idle_exempt boolean DEFAULT false NOT NULL,
    idle_warned_at timestamp with time zone,
    notified_events integer DEFAULT 0 NOT NULL,
    metrics_rank integer,
    command_key character varying(16) DEFAULT ''::character varying NOT NULL,
    prediction jsonb,
    trace_parent character varying(55) DEFAULT ''::character varying NOT NULL,
    request_id character varying(64) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT jobs_job_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_job_barrier_s_check CHECK ((barrier_s >= 0)),
    CONSTRAINT jobs_job_checkpoint_grace_s_check CHECK ((checkpoint_grace_s >= 0)),
    CONSTRAINT jobs_job_depth_check CHECK ((depth >= 0)),
    CONSTRAINT jobs_job_duration_s_check CHECK ((duration_s >= 0)),
    CONSTRAINT jobs_job_failing_retries_check CHECK ((failing_retries >= 0)),
    CONSTRAINT jobs_job_free_retries_check CHECK ((free_retries >= 0)),
    CONSTRAINT jobs_job_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT jobs_job_max_duration_s_check CHECK ((max_duration_s >= 0)),
    CONSTRAINT jobs_job_metrics_rank_check CHECK ((metrics_rank >= 0)),
    CONSTRAINT jobs_job_notified_events_check CHECK ((notified_events >= 0)),
    CONSTRAINT jobs_job_predicted_s_check CHECK ((predicted_s >= 0)),
    CONSTRAINT jobs_job_preemptions_check CHECK ((preemptions >= 0)),
    CONSTRAINT jobs_job_retries_used_check CHECK ((retries_used >= 0)),
    CONSTRAINT jobs_job_stop_grace_s_check CHECK ((stop_grace_s >= 0)),
    CONSTRAINT jobs_job_tasks_total_check CHECK ((tasks_total >= 0)),
    CONSTRAINT jobs_job_unplaced_check CHECK ((unplaced >= 0))
)
WITH (fillfactor='60');

CREATE TABLE public.jobs_jobapitoken (
    job_id uuid NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE public.jobs_jobattempt (
    id bigint NOT NULL,
    index integer NOT NULL,
    outcome character varying(16) NOT NULL,
    retry character varying(16) NOT NULL,
    placed_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    reason jsonb,
    diagnosis jsonb,
    job_id uuid NOT NULL,
    leave_s double precision,
    warmup_s double precision,
    CONSTRAINT jobs_jobattempt_index_check CHECK ((index >= 0))
);

ALTER TABLE public.jobs_jobattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobdependency (
    id bigint NOT NULL,
    condition character varying(16) NOT NULL,
    job_id uuid NOT NULL,
    upstream_id uuid NOT NULL
);

ALTER TABLE public.jobs_jobdependency ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobdependency_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobfiles (
    job_id uuid NOT NULL,
    archive_id integer NOT NULL
);

CREATE TABLE public.jobs_jobsecrets (
    job_id uuid NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE public.jobs_jobshare (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    group_id uuid,
    job_id uuid NOT NULL,
    shared_by_id bigint,
    user_id bigint,
    CONSTRAINT job_share_to_one CHECK ((((user_id IS NULL) OR (group_id IS NULL)) AND (1 = (
CASE
    WHEN (user_id IS NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (group_id IS NULL) THEN 1
    ELSE 0
END))))
);

ALTER TABLE public.jobs_jobshare ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobshare_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobstorage (
    id bigint NOT NULL,
    name character varying(127) NOT NULL,
    target character varying(1024) NOT NULL,
    job_id uuid NOT NULL,
    storage_id uuid,
    dataset_id uuid
);

ALTER TABLE public.jobs_jobstorage ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobstorage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_lease (
    id bigint NOT NULL,
    slot smallint NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    released_at timestamp with time zone,
    device_id character varying(80) NOT NULL,
    attempt_id uuid NOT NULL,
    counted_until timestamp with time zone,
    CONSTRAINT jobs_lease_slot_check CHECK ((slot >= 0))
);

ALTER TABLE public.jobs_lease ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_lease_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_portlease (
    id bigint NOT NULL,
    port integer NOT NULL,
    released_at timestamp with time zone,
    node_id uuid NOT NULL,
    attempt_id uuid NOT NULL,
    CONSTRAINT jobs_portlease_port_check CHECK ((port >= 0))
);

ALTER TABLE public.jobs_portlease ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_portlease_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_rankchange (
    id bigint NOT NULL,
    index integer NOT NULL,
    at timestamp with time zone NOT NULL,
    guaranteed boolean NOT NULL,
    job_id uuid NOT NULL,
    CONSTRAINT jobs_rankchange_index_check CHECK ((index >= 0))
);

ALTER TABLE public.jobs_rankchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_rankchange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_savedview (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(64) NOT NULL,
    filters jsonb NOT NULL,
    user_id bigint NOT NULL
);

CREATE TABLE public.jobs_task (
    id bigint NOT NULL,
    index integer NOT NULL,
    rank integer NOT NULL,
    job_id uuid NOT NULL,
    role_id bigint NOT NULL,
    not_before timestamp with time zone,
    retries_used integer NOT NULL,
    CONSTRAINT jobs_task_index_check CHECK ((index >= 0)),
    CONSTRAINT jobs_task_rank_check CHECK ((rank >= 0)),
    CONSTRAINT jobs_task_retries_used_check CHECK ((retries_used >= 0))
);

ALTER TABLE public.jobs_task ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_taskattempt (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    index integer NOT NULL,
    epoch bigint NOT NULL,
    state character varying(16) NOT NULL,
    gpu_uuids jsonb NOT NULL,
    gpu_model character varying(100) NOT NULL,
    network character varying(16) NOT NULL,
    ports jsonb NOT NULL,
    container_id character varying(80) NOT NULL,
    phase character varying(16) NOT NULL,
    pull_percent smallint,
    exit_code integer,
    exit_signal smallint,
    oom_killed boolean NOT NULL,
    error_code character varying(64) NOT NULL,
    error_message text NOT NULL,
    memory_peak_mb integer,
    log_sizes jsonb NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    released_at timestamp with time zone,
    job_id uuid NOT NULL,
    node_id uuid NOT NULL,
    task_id bigint NOT NULL,
    role_id bigint NOT NULL,
    cell_type character varying(200) NOT NULL,
    diagnosis jsonb,
    disk_full boolean NOT NULL,
    ready_at timestamp with time zone,
    retry integer NOT NULL,
    xids integer[] NOT NULL,
    told_run_at timestamp with time zone,
    address character varying(15) NOT NULL,
    pull_bytes bigint,
    pull_total_bytes bigint,
    CONSTRAINT jobs_taskattempt_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT jobs_taskattempt_exit_signal_check CHECK ((exit_signal >= 0)),
    CONSTRAINT jobs_taskattempt_index_check CHECK ((index >= 0)),
    CONSTRAINT jobs_taskattempt_memory_peak_mb_check CHECK ((memory_peak_mb >= 0)),
    CONSTRAINT jobs_taskattempt_pull_bytes_check CHECK ((pull_bytes >= 0)),
    CONSTRAINT jobs_taskattempt_pull_percent_check CHECK ((pull_percent >= 0)),
    CONSTRAINT jobs_taskattempt_pull_total_bytes_check CHECK ((pull_total_bytes >= 0)),
    CONSTRAINT jobs_taskattempt_retry_check CHECK ((retry >= 0))
)
WITH (fillfactor='70');

CREATE TABLE public.jobs_taskrole (
    id bigint NOT NULL,
    name character varying(255) NOT NULL,
    "position" smallint NOT NULL,
    instances integer NOT NULL,
    gpus integer NOT NULL,
    cpu_millis integer NOT NULL,
    memory_mb integer NOT NULL,
    shm_mb integer NOT NULL,
    ports jsonb NOT NULL,
    image character varying(512) NOT NULL,
    command text NOT NULL,
    min_failed integer NOT NULL,
    min_succeeded integer NOT NULL,
    job_id uuid NOT NULL,
    affinity_group character varying(255) NOT NULL,
    cell_type character varying(200) NOT NULL,
    cells integer NOT NULL,
    gpu_model character varying(100) NOT NULL,
    within character varying(200) NOT NULL,
    task_retries integer NOT NULL,
    rdma boolean NOT NULL,
    parallelism integer,
    elastic_min integer,
    elastic_max integer,
    asked_instances integer,
    CONSTRAINT jobs_taskrole_asked_instances_check CHECK ((asked_instances >= 0)),
    CONSTRAINT jobs_taskrole_cells_check CHECK ((cells >= 0)),
    CONSTRAINT jobs_taskrole_cpu_millis_check CHECK ((cpu_millis >= 0)),
    CONSTRAINT jobs_taskrole_elastic_max_check CHECK ((elastic_max >= 0)),
    CONSTRAINT jobs_taskrole_elastic_min_check CHECK ((elastic_min >= 0)),
    CONSTRAINT jobs_taskrole_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT jobs_taskrole_instances_check CHECK ((instances >= 0)),
    CONSTRAINT jobs_taskrole_memory_mb_check CHECK ((memory_mb >= 0)),
    CONSTRAINT jobs_taskrole_parallelism_check CHECK ((parallelism >= 0)),
    CONSTRAINT jobs_taskrole_position_check CHECK (("position" >= 0)),
    CONSTRAINT jobs_taskrole_shm_mb_check CHECK ((shm_mb >= 0))
);

ALTER TABLE public.jobs_taskrole ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_taskrole_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.mfa_authenticator (
    id bigint NOT NULL,
    type character varying(20) NOT NULL,
    data jsonb NOT NULL,
    user_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone
);

ALTER TABLE public.mfa_authenticator ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.mfa_authenticator_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.notifications_delivery (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    channel character varying(8) NOT NULL,
    event character varying(64) NOT NULL,
    items jsonb NOT NULL,
    count integer NOT NULL,
    state character varying(8) NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts smallint NOT NULL,
    claim uuid,
    claimed_until timestamp with time zone,
    sent_at timestamp with time zone,
    error character varying(300) NOT NULL,
    user_id bigint NOT NULL,
    webhook_id uuid,
    CONSTRAINT notifications_delivery_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT notifications_delivery_count_check CHECK ((count >= 0))
);

CREATE TABLE public.notifications_notification (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    event character varying(64) NOT NULL,
    items jsonb NOT NULL,
    count integer NOT NULL,
    open_until timestamp with time zone NOT NULL,
    read_at timestamp with time zone,
    user_id bigint NOT NULL,
    CONSTRAINT notifications_notification_count_check CHECK ((count >= 0))
);

CREATE TABLE public.notifications_preferences (
    user_id bigint NOT NULL,
    channels jsonb NOT NULL
);

CREATE TABLE public.notifications_webhook (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    origin character varying(300) NOT NULL,
    sealed bytea NOT NULL,
    format character varying(8) NOT NULL,
    enabled boolean NOT NULL,
    disabled_reason character varying(300) NOT NULL,
    failures integer NOT NULL,
    user_id bigint NOT NULL,
    CONSTRAINT notifications_webhook_failures_check CHECK ((failures >= 0))
);

CREATE TABLE public.operations_alert (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    subject character varying(300) NOT NULL,
    message character varying(500) NOT NULL,
    details jsonb NOT NULL,
    fired_at timestamp with time zone,
    acted character varying(300) NOT NULL,
    ended_at timestamp with time zone,
    rule_id uuid NOT NULL
);

CREATE TABLE public.operations_alertrule (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    kind character varying(16) NOT NULL,
    threshold double precision NOT NULL,
    for_minutes integer NOT NULL,
    action character varying(8) NOT NULL,
    enabled boolean NOT NULL,
    evaluated_at timestamp with time zone,
    CONSTRAINT operations_alertrule_for_minutes_check CHECK ((for_minutes >= 0))
);

CREATE TABLE public.operations_alertrule_recipients (
    id integer NOT NULL,
    alertrule_id uuid NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.operations_alertrule_recipients ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.operations_alertrule_recipients_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.operations_backup (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    place character varying(300) NOT NULL,
    version character varying(64) NOT NULL,
    bytes bigint,
    CONSTRAINT operations_backup_bytes_check CHECK ((bytes >= 0))
);

ALTER TABLE public.operations_backup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.operations_backup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.scheduling_attainedservice (
    job_id uuid NOT NULL,
    gpu_s double precision NOT NULL,
    released_at timestamp with time zone
);

CREATE TABLE public.scheduling_change (
    id bigint NOT NULL,
    txid bigint NOT NULL,
    kind character varying(16) NOT NULL,
    subject character varying(80) NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE public.scheduling_change ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduling_change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.scheduling_expectedstart (
    job_id uuid NOT NULL,
    low timestamp with time zone NOT NULL,
    high timestamp with time zone NOT NULL,
    made_at timestamp with time zone NOT NULL
);

CREATE TABLE public.scheduling_preemptioncooldown (
    job_id uuid NOT NULL,
    times integer NOT NULL,
    cancelled_at double precision NOT NULL,
    CONSTRAINT scheduling_preemptioncooldown_times_check CHECK ((times >= 0))
);

CREATE TABLE public.scheduling_reservation (
    id bigint NOT NULL,
    placement jsonb NOT NULL,
    victims jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    job_id uuid NOT NULL
);

ALTER TABLE public.scheduling_reservation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduling_reservation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.scheduling_reservedstart (
    job_id uuid NOT NULL,
    start double precision NOT NULL,
    places jsonb NOT NULL
);

CREATE TABLE public.scheduling_vctimeline (
    vc_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    entries jsonb NOT NULL
);

CREATE TABLE public.scheduling_vcuse (
    id bigint NOT NULL,
    gpu_model character varying(100) NOT NULL,
    at timestamp with time zone NOT NULL,
    owned integer NOT NULL,
    used integer NOT NULL,
    borrowed integer NOT NULL,
    lent integer NOT NULL,
    bad integer NOT NULL,
    waiting integer NOT NULL,
    vc_id uuid NOT NULL,
    unavailable integer DEFAULT 0 NOT NULL,
    CONSTRAINT scheduling_vcuse_bad_check CHECK ((bad >= 0)),
    CONSTRAINT scheduling_vcuse_borrowed_check CHECK ((borrowed >= 0)),
    CONSTRAINT scheduling_vcuse_lent_check CHECK ((lent >= 0)),
    CONSTRAINT scheduling_vcuse_owned_check CHECK ((owned >= 0)),
    CONSTRAINT scheduling_vcuse_unavailable_check CHECK ((unavailable >= 0)),
    CONSTRAINT scheduling_vcuse_used_check CHECK ((used >= 0)),
    CONSTRAINT scheduling_vcuse_waiting_check CHECK ((waiting >= 0))
);

ALTER TABLE public.scheduling_vcuse ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduling_vcuse_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.simulations_simulation (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    state character varying(16) NOT NULL,
    request jsonb NOT NULL,
    jobs_total integer NOT NULL,
    jobs_ended integer NOT NULL,
    result jsonb,
    error jsonb,
    alive_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    stop_requested boolean NOT NULL,
    owner_id bigint NOT NULL,
    vc_id uuid,
    CONSTRAINT simulations_simulation_jobs_ended_check CHECK ((jobs_ended >= 0)),
    CONSTRAINT simulations_simulation_jobs_total_check CHECK ((jobs_total >= 0))
);

CREATE TABLE public.socialaccount_socialaccount (
    id integer NOT NULL,
    provider character varying(200) NOT NULL,
    uid character varying(191) NOT NULL,
    last_login timestamp with time zone NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    extra_data jsonb NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.socialaccount_socialaccount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialaccount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialapp (
    id integer NOT NULL,
    provider character varying(30) NOT NULL,
    name character varying(40) NOT NULL,
    client_id character varying(191) NOT NULL,
    secret character varying(191) NOT NULL,
    key character varying(191) NOT NULL,
    provider_id character varying(200) NOT NULL,
    settings jsonb NOT NULL
);

ALTER TABLE public.socialaccount_socialapp ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialapp_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialtoken (
    id integer NOT NULL,
    token text NOT NULL,
    token_secret text NOT NULL,
    expires_at timestamp with time zone,
    account_id integer NOT NULL,
    app_id integer
);

ALTER TABLE public.socialaccount_socialtoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialtoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.storage_dataset (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    version character varying(63) NOT NULL,
    description character varying(2000) NOT NULL,
    user_folder character varying(255) NOT NULL,
    path character varying(1024) NOT NULL,
    job_id uuid,
    job_name character varying(255) NOT NULL,
    size bigint,
    files bigint,
    owner_id bigint,
    storage_id uuid NOT NULL,
    vc_id uuid NOT NULL
);

CREATE TABLE public.storage_storage (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    description character varying(500) NOT NULL,
    type character varying(16) NOT NULL,
    data jsonb NOT NULL,
    mount_options jsonb NOT NULL,
    read_only boolean NOT NULL,
    per_user boolean NOT NULL,
    "default" boolean NOT NULL,
    created_by_id bigint,
    home boolean DEFAULT false NOT NULL,
    sealed bytea,
    managed_by_id uuid
);

CREATE TABLE public.storage_storagegrant (
    id bigint NOT NULL,
    read_only boolean NOT NULL,
    storage_id uuid NOT NULL,
    vc_id uuid,
    group_id uuid,
    CONSTRAINT storage_grant_to_one CHECK ((((vc_id IS NULL) OR (group_id IS NULL)) AND (1 = (
CASE
    WHEN (vc_id IS NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (group_id IS NULL) THEN 1
    ELSE 0
END))))
);

ALTER TABLE public.storage_storagegrant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.storage_storagegrant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_gpuhistory (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds integer NOT NULL,
    samples integer NOT NULL,
    device_id character varying(80) NOT NULL,
    attempt_id uuid,
    utilization_sum double precision NOT NULL,
    utilization_max double precision NOT NULL,
    memory_used_mb_max integer NOT NULL,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpuhistory_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY LIST (seconds);

CREATE TABLE public.telemetry_gpudays (
    id bigint CONSTRAINT telemetry_gpuhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_gpuhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_gpuhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_gpuhistory_samples_not_null NOT NULL,
    device_id character varying(80) CONSTRAINT telemetry_gpuhistory_device_id_not_null NOT NULL,
    attempt_id uuid,
    utilization_sum double precision CONSTRAINT telemetry_gpuhistory_utilization_sum_not_null NOT NULL,
    utilization_max double precision CONSTRAINT telemetry_gpuhistory_utilization_max_not_null NOT NULL,
    memory_used_mb_max integer CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_not_null NOT NULL,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpuhistory_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_gpudays_default (
    id bigint CONSTRAINT telemetry_gpuhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_gpuhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_gpuhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_gpuhistory_samples_not_null NOT NULL,
    device_id character varying(80) CONSTRAINT telemetry_gpuhistory_device_id_not_null NOT NULL,
    attempt_id uuid,
    utilization_sum double precision CONSTRAINT telemetry_gpuhistory_utilization_sum_not_null NOT NULL,
    utilization_max double precision CONSTRAINT telemetry_gpuhistory_utilization_max_not_null NOT NULL,
    memory_used_mb_max integer CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_not_null NOT NULL,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpuhistory_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_gpudays_default REPLICA IDENTITY FULL;

ALTER TABLE public.telemetry_gpuhistory ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_gpuhistory_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_gpuhours (
    id bigint CONSTRAINT telemetry_gpuhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_gpuhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_gpuhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_gpuhistory_samples_not_null NOT NULL,
    device_id character varying(80) CONSTRAINT telemetry_gpuhistory_device_id_not_null NOT NULL,
    attempt_id uuid,
    utilization_sum double precision CONSTRAINT telemetry_gpuhistory_utilization_sum_not_null NOT NULL,
    utilization_max double precision CONSTRAINT telemetry_gpuhistory_utilization_max_not_null NOT NULL,
    memory_used_mb_max integer CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_not_null NOT NULL,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpuhistory_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_gpuhours_default (
    id bigint CONSTRAINT telemetry_gpuhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_gpuhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_gpuhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_gpuhistory_samples_not_null NOT NULL,
    device_id character varying(80) CONSTRAINT telemetry_gpuhistory_device_id_not_null NOT NULL,
    attempt_id uuid,
    utilization_sum double precision CONSTRAINT telemetry_gpuhistory_utilization_sum_not_null NOT NULL,
    utilization_max double precision CONSTRAINT telemetry_gpuhistory_utilization_max_not_null NOT NULL,
    memory_used_mb_max integer CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_not_null NOT NULL,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpuhistory_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpuhistory_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpuhistory_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_gpuhours_default REPLICA IDENTITY FULL;

CREATE TABLE public.telemetry_gpurollup (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds integer NOT NULL,
    samples integer NOT NULL,
    utilization_sum double precision NOT NULL,
    utilization_max double precision NOT NULL,
    memory_used_mb_max integer NOT NULL,
    attempt_id uuid,
    device_id character varying(80) NOT NULL,
    fine jsonb,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpurollup_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpurollup_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpurollup_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpurollup_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_gpurollup_default (
    id bigint CONSTRAINT telemetry_gpurollup_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_gpurollup_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_gpurollup_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_gpurollup_samples_not_null NOT NULL,
    utilization_sum double precision CONSTRAINT telemetry_gpurollup_utilization_sum_not_null NOT NULL,
    utilization_max double precision CONSTRAINT telemetry_gpurollup_utilization_max_not_null NOT NULL,
    memory_used_mb_max integer CONSTRAINT telemetry_gpurollup_memory_used_mb_max_not_null NOT NULL,
    attempt_id uuid,
    device_id character varying(80) CONSTRAINT telemetry_gpurollup_device_id_not_null NOT NULL,
    fine jsonb,
    power_w_sum double precision,
    power_samples integer,
    CONSTRAINT telemetry_gpurollup_memory_used_mb_max_check CHECK ((memory_used_mb_max >= 0)),
    CONSTRAINT telemetry_gpurollup_power_samples_check CHECK ((power_samples >= 0)),
    CONSTRAINT telemetry_gpurollup_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_gpurollup_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_gpurollup_default REPLICA IDENTITY FULL;

ALTER TABLE public.telemetry_gpurollup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_gpurollup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_jobuse (
    job_id uuid NOT NULL,
    gpu_hours double precision NOT NULL,
    gpu_utilization double precision,
    gpu_memory_peak_mb integer,
    cpu_percent double precision,
    memory_peak_mb integer,
    advice jsonb NOT NULL,
    CONSTRAINT telemetry_jobuse_gpu_memory_peak_mb_check CHECK ((gpu_memory_peak_mb >= 0)),
    CONSTRAINT telemetry_jobuse_memory_peak_mb_check CHECK ((memory_peak_mb >= 0))
);

CREATE TABLE public.telemetry_logchunk (
    id bigint NOT NULL,
    stream character varying(8) NOT NULL,
    "offset" bigint NOT NULL,
    size integer NOT NULL,
    at timestamp with time zone NOT NULL,
    key character varying(200) NOT NULL,
    attempt_id uuid NOT NULL,
    job_id uuid NOT NULL,
    times_size integer DEFAULT 0 NOT NULL,
    CONSTRAINT telemetry_logchunk_offset_check CHECK (("offset" >= 0)),
    CONSTRAINT telemetry_logchunk_size_check CHECK ((size >= 0)),
    CONSTRAINT telemetry_logchunk_times_size_check CHECK ((times_size >= 0))
);

ALTER TABLE public.telemetry_logchunk ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_logchunk_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_metriclog (
    attempt_id uuid NOT NULL,
    stdout bigint NOT NULL,
    stderr bigint NOT NULL,
    stdout_end bigint NOT NULL,
    stderr_end bigint NOT NULL,
    inside character varying(8)[] NOT NULL,
    dropped jsonb NOT NULL,
    due_at timestamp with time zone,
    at timestamp with time zone NOT NULL,
    job_id uuid NOT NULL,
    CONSTRAINT telemetry_metriclog_stderr_check CHECK ((stderr >= 0)),
    CONSTRAINT telemetry_metriclog_stderr_end_check CHECK ((stderr_end >= 0)),
    CONSTRAINT telemetry_metriclog_stdout_check CHECK ((stdout >= 0)),
    CONSTRAINT telemetry_metriclog_stdout_end_check CHECK ((stdout_end >= 0))
);

CREATE TABLE public.telemetry_predictionday (
    id bigint NOT NULL,
    day date NOT NULL,
    source character varying(8) NOT NULL,
    jobs integer NOT NULL,
    intervals integer NOT NULL,
    within integer NOT NULL,
    errors integer[] NOT NULL,
    CONSTRAINT telemetry_predictionday_intervals_check CHECK ((intervals >= 0)),
    CONSTRAINT telemetry_predictionday_jobs_check CHECK ((jobs >= 0)),
    CONSTRAINT telemetry_predictionday_within_check CHECK ((within >= 0))
);

ALTER TABLE public.telemetry_predictionday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_predictionday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_taskhistory (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds integer NOT NULL,
    samples integer NOT NULL,
    attempt_id uuid NOT NULL,
    cpu_percent_sum double precision NOT NULL,
    cpu_percent_max double precision NOT NULL,
    memory_mb_max integer NOT NULL,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskhistory_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY LIST (seconds);

CREATE TABLE public.telemetry_taskdays (
    id bigint CONSTRAINT telemetry_taskhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_taskhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_taskhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_taskhistory_samples_not_null NOT NULL,
    attempt_id uuid CONSTRAINT telemetry_taskhistory_attempt_id_not_null NOT NULL,
    cpu_percent_sum double precision CONSTRAINT telemetry_taskhistory_cpu_percent_sum_not_null NOT NULL,
    cpu_percent_max double precision CONSTRAINT telemetry_taskhistory_cpu_percent_max_not_null NOT NULL,
    memory_mb_max integer CONSTRAINT telemetry_taskhistory_memory_mb_max_not_null NOT NULL,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskhistory_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_taskdays_default (
    id bigint CONSTRAINT telemetry_taskhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_taskhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_taskhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_taskhistory_samples_not_null NOT NULL,
    attempt_id uuid CONSTRAINT telemetry_taskhistory_attempt_id_not_null NOT NULL,
    cpu_percent_sum double precision CONSTRAINT telemetry_taskhistory_cpu_percent_sum_not_null NOT NULL,
    cpu_percent_max double precision CONSTRAINT telemetry_taskhistory_cpu_percent_max_not_null NOT NULL,
    memory_mb_max integer CONSTRAINT telemetry_taskhistory_memory_mb_max_not_null NOT NULL,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskhistory_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskhistory_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_taskdays_default REPLICA IDENTITY FULL;

ALTER TABLE public.telemetry_taskhistory ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_taskhistory_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_taskhours (
    id bigint CONSTRAINT telemetry_taskhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_taskhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_taskhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_taskhistory_samples_not_null NOT NULL,
    attempt_id uuid CONSTRAINT telemetry_taskhistory_attempt_id_not_null NOT NULL,
    cpu_percent_sum double precision CONSTRAINT telemetry_taskhistory_cpu_percent_sum_not_null NOT NULL,
    cpu_percent_max double precision CONSTRAINT telemetry_taskhistory_cpu_percent_max_not_null NOT NULL,
    memory_mb_max integer CONSTRAINT telemetry_taskhistory_memory_mb_max_not_null NOT NULL,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskhistory_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskhistory_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_taskhours_default (
    id bigint CONSTRAINT telemetry_taskhistory_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_taskhistory_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_taskhistory_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_taskhistory_samples_not_null NOT NULL,
    attempt_id uuid CONSTRAINT telemetry_taskhistory_attempt_id_not_null NOT NULL,
    cpu_percent_sum double precision CONSTRAINT telemetry_taskhistory_cpu_percent_sum_not_null NOT NULL,
    cpu_percent_max double precision CONSTRAINT telemetry_taskhistory_cpu_percent_max_not_null NOT NULL,
    memory_mb_max integer CONSTRAINT telemetry_taskhistory_memory_mb_max_not_null NOT NULL,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskhistory_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskhistory_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskhistory_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_taskhours_default REPLICA IDENTITY FULL;

CREATE TABLE public.telemetry_taskrollup (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds integer NOT NULL,
    samples integer NOT NULL,
    cpu_percent_sum double precision NOT NULL,
    cpu_percent_max double precision NOT NULL,
    memory_mb_max integer NOT NULL,
    attempt_id uuid NOT NULL,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    fine jsonb,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskrollup_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskrollup_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskrollup_seconds_check CHECK ((seconds >= 0))
)
PARTITION BY RANGE (at);

CREATE TABLE public.telemetry_taskrollup_default (
    id bigint CONSTRAINT telemetry_taskrollup_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT telemetry_taskrollup_at_not_null NOT NULL,
    seconds integer CONSTRAINT telemetry_taskrollup_seconds_not_null NOT NULL,
    samples integer CONSTRAINT telemetry_taskrollup_samples_not_null NOT NULL,
    cpu_percent_sum double precision CONSTRAINT telemetry_taskrollup_cpu_percent_sum_not_null NOT NULL,
    cpu_percent_max double precision CONSTRAINT telemetry_taskrollup_cpu_percent_max_not_null NOT NULL,
    memory_mb_max integer CONSTRAINT telemetry_taskrollup_memory_mb_max_not_null NOT NULL,
    attempt_id uuid CONSTRAINT telemetry_taskrollup_attempt_id_not_null NOT NULL,
    disk_read_bytes bigint,
    disk_written_bytes bigint,
    fine jsonb,
    network_rx_bytes bigint,
    network_tx_bytes bigint,
    byte_samples integer[],
    CONSTRAINT telemetry_taskrollup_memory_mb_max_check CHECK ((memory_mb_max >= 0)),
    CONSTRAINT telemetry_taskrollup_samples_check CHECK ((samples >= 0)),
    CONSTRAINT telemetry_taskrollup_seconds_check CHECK ((seconds >= 0))
);

ALTER TABLE ONLY public.telemetry_taskrollup_default REPLICA IDENTITY FULL;

ALTER TABLE public.telemetry_taskrollup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_taskrollup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.telemetry_usermetric (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    stride bigint NOT NULL,
    steps double precision[] NOT NULL,
    times double precision[] NOT NULL,
    "values" double precision[] NOT NULL,
    count bigint NOT NULL,
    low double precision,
    high double precision,
    last double precision,
    last_step double precision,
    last_time double precision,
    not_finite bigint NOT NULL,
    not_finite_step double precision,
    at timestamp with time zone NOT NULL,
    attempt_id uuid NOT NULL,
    job_id uuid NOT NULL,
    CONSTRAINT telemetry_usermetric_count_check CHECK ((count >= 0)),
    CONSTRAINT telemetry_usermetric_not_finite_check CHECK ((not_finite >= 0)),
    CONSTRAINT telemetry_usermetric_stride_check CHECK ((stride >= 0))
);

ALTER TABLE public.telemetry_usermetric ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.telemetry_usermetric_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.templates_template (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    title character varying(100) NOT NULL,
    description text NOT NULL,
    text text NOT NULL,
    parameters jsonb NOT NULL,
    gpus integer NOT NULL,
    tasks integer NOT NULL,
    shipped boolean NOT NULL,
    listed boolean NOT NULL,
    stars integer NOT NULL,
    owner_id bigint,
    vc_id uuid,
    CONSTRAINT templates_template_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT templates_template_stars_check CHECK ((stars >= 0)),
    CONSTRAINT templates_template_tasks_check CHECK ((tasks >= 0))
);

CREATE TABLE public.templates_templatestar (
    id bigint NOT NULL,
    template_id uuid NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.templates_templatestar ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.templates_templatestar_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_membership (
    id bigint NOT NULL,
    role character varying(16) NOT NULL,
    user_id bigint NOT NULL,
    vc_id uuid NOT NULL
);

ALTER TABLE public.tenancy_membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_pinnedcell (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    cell_type character varying(200) NOT NULL,
    node_name character varying(255) NOT NULL,
    device_uuid character varying(80) NOT NULL,
    vc_id uuid
);

ALTER TABLE public.tenancy_pinnedcell ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_pinnedcell_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_quota (
    id bigint NOT NULL,
    gpu_model character varying(100) NOT NULL,
    gpus integer NOT NULL,
    vc_id uuid NOT NULL,
    CONSTRAINT tenancy_quota_gpus_check CHECK ((gpus >= 0))
);

ALTER TABLE public.tenancy_quota ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_quota_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_rolegrant (
    id bigint NOT NULL,
    role character varying(16) NOT NULL,
    group_id uuid,
    user_id bigint,
    vc_id uuid NOT NULL,
    CONSTRAINT role_grant_to_one CHECK ((((user_id IS NULL) OR (group_id IS NULL)) AND (1 = (
CASE
    WHEN (user_id IS NULL) THEN 1
    ELSE 0
END +
CASE
    WHEN (group_id IS NULL) THEN 1
    ELSE 0
END))))
);

ALTER TABLE public.tenancy_rolegrant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_rolegrant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_serviceaccount (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    description character varying(500) NOT NULL,
    user_id bigint NOT NULL,
    vc_id uuid NOT NULL
);

CREATE TABLE public.tenancy_vccell (
    id bigint NOT NULL,
    chain character varying(200) NOT NULL,
    cell_type character varying(200) NOT NULL,
    number integer NOT NULL,
    vc_id uuid NOT NULL,
    CONSTRAINT tenancy_vccell_number_check CHECK ((number >= 0))
);

ALTER TABLE public.tenancy_vccell ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_vccell_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_vclimit (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    value bigint NOT NULL,
    vc_id uuid NOT NULL
);

ALTER TABLE public.tenancy_vclimit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenancy_vclimit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenancy_virtualcluster (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name character varying(63) NOT NULL,
    description character varying(500) NOT NULL,
    max_stop_grace_s integer NOT NULL,
    job_visibility character varying(8) NOT NULL,
    policy jsonb,
    default_image character varying(512) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT tenancy_virtualcluster_max_stop_grace_s_check CHECK ((max_stop_grace_s >= 0))
);

CREATE TABLE public.usage_budget (
    vc_id uuid NOT NULL,
    gpu_hours integer NOT NULL,
    month date NOT NULL,
    used_us bigint NOT NULL,
    warned boolean NOT NULL,
    used_up boolean NOT NULL,
    CONSTRAINT usage_budget_gpu_hours_check CHECK ((gpu_hours >= 0))
);

CREATE TABLE public.usage_fairnessmeasure (
    vc_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    worst_rho double precision NOT NULL,
    jain_index double precision NOT NULL
);

CREATE TABLE public.usage_jobusage (
    job_id uuid NOT NULL,
    gpu_model character varying(100),
    month date NOT NULL,
    first_day date NOT NULL,
    last_day date NOT NULL,
    allocated_us bigint NOT NULL,
    guaranteed_us bigint NOT NULL,
    used_us bigint NOT NULL,
    known_us bigint NOT NULL,
    idle_us bigint GENERATED ALWAYS AS ((known_us - used_us)) STORED,
    user_id bigint NOT NULL,
    vc_id uuid NOT NULL
);

CREATE TABLE public.usage_usageday (
    id bigint NOT NULL,
    day date NOT NULL,
    gpu_model character varying(100) NOT NULL,
    guaranteed boolean NOT NULL,
    allocated_us bigint NOT NULL,
    used_us bigint NOT NULL,
    known_us bigint NOT NULL,
    job_id uuid,
    user_id bigint NOT NULL,
    vc_id uuid NOT NULL
);

ALTER TABLE public.usage_usageday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.usage_usageday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.usage_usagerollup (
    id bigint NOT NULL,
    monthly boolean NOT NULL,
    day date NOT NULL,
    gpu_model character varying(100) NOT NULL,
    guaranteed boolean NOT NULL,
    allocated_us bigint NOT NULL,
    used_us bigint NOT NULL,
    known_us bigint NOT NULL,
    user_id bigint,
    vc_id uuid
);

ALTER TABLE public.usage_usagerollup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.usage_usagerollup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.audit_entry ATTACH PARTITION public.audit_entry_default DEFAULT;

ALTER TABLE ONLY public.telemetry_gpuhistory ATTACH PARTITION public.telemetry_gpudays FOR VALUES IN (86400);

ALTER TABLE ONLY public.telemetry_gpudays ATTACH PARTITION public.telemetry_gpudays_default DEFAULT;

ALTER TABLE ONLY public.telemetry_gpuhistory ATTACH PARTITION public.telemetry_gpuhours FOR VALUES IN (3600);

ALTER TABLE ONLY public.telemetry_gpuhours ATTACH PARTITION public.telemetry_gpuhours_default DEFAULT;

ALTER TABLE ONLY public.telemetry_gpurollup ATTACH PARTITION public.telemetry_gpurollup_default DEFAULT;

ALTER TABLE ONLY public.telemetry_taskhistory ATTACH PARTITION public.telemetry_taskdays FOR VALUES IN (86400);

ALTER TABLE ONLY public.telemetry_taskdays ATTACH PARTITION public.telemetry_taskdays_default DEFAULT;

ALTER TABLE ONLY public.telemetry_taskhistory ATTACH PARTITION public.telemetry_taskhours FOR VALUES IN (3600);

ALTER TABLE ONLY public.telemetry_taskhours ATTACH PARTITION public.telemetry_taskhours_default DEFAULT;

ALTER TABLE ONLY public.telemetry_taskrollup ATTACH PARTITION public.telemetry_taskrollup_default DEFAULT;

INSERT INTO public.django_migrations VALUES
	(1, 'contenttypes', '0001_initial', now()),
	(2, 'contenttypes', '0002_remove_content_type_name', now()),
	(3, 'auth', '0001_initial', now()),
	(4, 'auth', '0002_alter_permission_name_max_length', now()),
	(5, 'auth', '0003_alter_user_email_max_length', now()),
	(6, 'auth', '0004_alter_user_username_opts', now()),
	(7, 'auth', '0005_alter_user_last_login_null', now()),
	(8, 'auth', '0006_require_contenttypes_0002', now()),
	(9, 'auth', '0007_alter_validators_add_error_messages', now()),
	(10, 'auth', '0008_alter_user_username_max_length', now()),
	(11, 'auth', '0009_alter_user_last_name_max_length', now()),
	(12, 'auth', '0010_alter_group_name_max_length', now()),
	(13, 'auth', '0011_update_proxy_permissions', now()),
	(14, 'auth', '0012_alter_user_first_name_max_length', now()),
	(15, 'accounts', '0001_initial', now()),
	(16, 'account', '0001_initial', now()),
	(17, 'account', '0002_email_max_length', now()),
	(18, 'account', '0003_alter_emailaddress_create_unique_verified_email', now()),
	(19, 'account', '0004_alter_emailaddress_drop_unique_email', now()),
	(20, 'account', '0005_emailaddress_idx_upper_email', now()),
	(21, 'account', '0006_emailaddress_lower', now()),
	(22, 'account', '0007_emailaddress_idx_email', now()),
	(23, 'account', '0008_emailaddress_unique_primary_email_fixup', now()),
	(24, 'account', '0009_emailaddress_unique_primary_email', now()),
	(25, 'accounts', '0002_token_scopes', now()),
	(26, 'accounts', '0003_groups', now()),
	(27, 'accounts', '0004_service_accounts', now()),
	(28, 'accounts', '0005_user_notified_events', now()),
	(29, 'accounts', '0006_account_recovery', now()),
	(30, 'accounts', '0007_device_login', now()),
	(31, 'accounts', '0008_browser_session', now()),
	(32, 'accounts', '0009_sshkey', now()),
	(33, 'audit', '0001_initial', now()),
	(34, 'audit', '0002_search_by_name', now()),
	(35, 'audit', '0003_refused_of_vc', now()),
	(36, 'cluster', '0001_initial', now()),
	(37, 'cluster', '0002_cells', now()),
	(38, 'cluster', '0003_draining', now()),
	(39, 'cluster', '0004_node_names', now()),
	(40, 'cluster', '0005_protocol', now()),
	(41, 'cluster', '0006_faults', now()),
	(42, 'cluster', '0007_gpu_model_names', now()),
	(43, 'cluster', '0008_presence', now()),
	(44, 'cluster', '0009_gang_network', now()),
	(45, 'cluster', '0010_join_token_node', now()),
	(46, 'cluster', '0011_node_disks', now()),
	(47, 'cluster', '0012_components', now()),
	(48, 'cluster', '0013_rdma', now()),
	(49, 'cluster', '0014_announcements', now()),
	(50, 'cluster', '0015_announcementdismissal', now()),
	(51, 'cluster', '0016_inner_mounts', now()),
	(52, 'cluster', '0017_s3_mounts', now()),
	(53, 'cluster', '0018_node_life', now()),
	(54, 'cluster', '0019_peer_checks', now()),
	(55, 'cluster', '0020_node_warnings', now()),
	(56, 'cluster', '0021_was_draining', now()),
	(57, 'core', '0001_initial', now()),
	(58, 'core', '0002_cells', now()),
	(59, 'core', '0003_folded_events', now()),
	(60, 'core', '0004_group_events', now()),
	(61, 'core', '0005_event_notify', now()),
	(62, 'core', '0006_leadership', now()),
	(63, 'core', '0007_months', now()),
	(64, 'files', '0001_initial', now()),
	(65, 'tenancy', '0001_initial', now()),
	(66, 'tenancy', '0002_cells', now()),
	(67, 'tenancy', '0003_limits', now()),
	(68, 'tenancy', '0004_gpu_model_names', now()),
	(69, 'tenancy', '0005_visibility', now()),
	(70, 'tenancy', '0006_policy', now()),
	(71, 'tenancy', '0007_role_grants', now()),
	(72, 'tenancy', '0008_service_accounts', now()),
	(73, 'tenancy', '0009_default_image', now()),
	(74, 'images', '0001_initial', now()),
	(75, 'images', '0002_registry_credential', now()),
	(76, 'images', '0003_image_rule', now()),
	(77, 'images', '0004_catalogue', now()),
	(78, 'images', '0005_prefetch', now()),
	(79, 'sessions', '0001_initial', now()),
	(80, 'storage', '0001_initial', now()),
	(81, 'jobs', '0001_initial', now()),
	(82, 'jobs', '0002_cells', now()),
	(83, 'jobs', '0003_protocol', now()),
	(84, 'jobs', '0004_use_counted', now()),
	(85, 'jobs', '0005_diagnosis_claim', now()),
	(86, 'jobs', '0006_held_gangs', now()),
	(87, 'jobs', '0007_gpu_model_names', now()),
	(88, 'jobs', '0008_visibility', now()),
	(89, 'jobs', '0009_told_run', now()),
	(90, 'jobs', '0010_gang_network', now()),
	(91, 'jobs', '0011_failing_retries', now()),
	(92, 'jobs', '0012_rdma', now()),
	(93, 'jobs', '0013_dependencies', now()),
	(94, 'jobs', '0014_verdict', now()),
	(95, 'jobs', '0015_predicted_duration', now()),
	(96, 'jobs', '0016_sent_run_at', now()),
	(97, 'jobs', '0017_usage', now()),
	(98, 'jobs', '0018_storages', now()),
	(99, 'interactive', '0001_initial', now()),
	(100, 'storage', '0002_group_grants', now()),
	(101, 'storage', '0003_home', now()),
	(102, 'storage', '0004_datasets', now()),
	(103, 'jobs', '0019_list_at_scale', now()),
	(104, 'jobs', '0020_job_share', now()),
	(105, 'jobs', '0021_retries_ended', now()),
	(106, 'jobs', '0022_followers', now()),
	(107, 'jobs', '0023_idle_rule', now()),
	(108, 'jobs', '0024_job_notified_events', now()),
	(109, 'jobs', '0025_pull_bytes', now()),
	(110, 'jobs', '0026_base_name_index', now()),
	(111, 'jobs', '0027_causes_and_saved_views', now()),
	(112, 'jobs', '0028_datasets', now()),
	(113, 'jobs', '0029_user_metrics', now()),
	(114, 'jobs', '0030_image_saves', now()),
	(115, 'jobs', '0031_job_with_metrics', now()),
	(116, 'jobs', '0032_prediction', now()),
	(117, 'jobs', '0033_job_by_command', now()),
	(118, 'jobs', '0034_restart_times', now()),
	(119, 'jobs', '0035_job_order_openpai', now()),
	(120, 'jobs', '0036_trace_parent', now()),
	(121, 'jobs', '0037_elastic_roles', now()),
	(122, 'jobs', '0038_archived_job', now()),
	(123, 'jobs', '0039_fewer_indexes', now()),
	(124, 'jobs', '0040_request_id', now()),
	(125, 'jobs', '0041_placed_in_place', now()),
	(126, 'mfa', '0001_initial', now()),
	(127, 'mfa', '0002_authenticator_timestamps', now()),
	(128, 'mfa', '0003_authenticator_type_uniq', now()),
	(129, 'notifications', '0001_initial', now()),
	(130, 'operations', '0001_operations', now()),
	(131, 'operations', '0002_doctor_rule', now()),
	(132, 'operations', '0003_evaluated_at', now()),
	(133, 'usage', '0001_usage', now()),
	(134, 'usage', '0002_budget', now()),
	(135, 'scheduling', '0001_initial', now()),
	(136, 'scheduling', '0002_change_log', now()),
	(137, 'scheduling', '0003_reservation', now()),
	(138, 'scheduling', '0004_vc_use_unavailable', now()),
	(139, 'scheduling', '0005_policy_in_log', now()),
	(140, 'scheduling', '0006_nomination', now()),
	(141, 'scheduling', '0007_new_devices_once', now()),
	(142, 'scheduling', '0008_draining_in_log', now()),
	(143, 'scheduling', '0009_attained_service', now()),
	(144, 'scheduling', '0010_budget_in_log', now()),
	(145, 'scheduling', '0011_user_limits', now()),
	(146, 'scheduling', '0012_maintenance_in_log', now()),
	(147, 'scheduling', '0013_expected_start', now()),
	(148, 'simulations', '0001_initial', now()),
	(149, 'socialaccount', '0001_initial', now()),
	(150, 'socialaccount', '0002_token_max_lengths', now()),
	(151, 'socialaccount', '0003_extra_data_default_dict', now()),
	(152, 'socialaccount', '0004_app_provider_id_settings', now()),
	(153, 'socialaccount', '0005_socialtoken_nullable_app', now()),
	(154, 'socialaccount', '0006_alter_socialaccount_extra_data', now()),
	(155, 'storage', '0005_s3', now()),
	(156, 'storage', '0006_managed_by', now()),
	(157, 'telemetry', '0001_initial', now()),
	(158, 'telemetry', '0002_protocol', now()),
	(159, 'telemetry', '0003_chunk_by_attempt', now()),
	(160, 'telemetry', '0004_fewer_chunk_indexes', now()),
	(161, 'telemetry', '0005_log_times', now()),
	(162, 'telemetry', '0006_user_metrics', now()),
	(163, 'telemetry', '0007_fine_points', now()),
	(164, 'telemetry', '0008_prediction_day', now()),
	(165, 'telemetry', '0009_measured_samples', now()),
	(166, 'telemetry', '0010_downsampling', now()),
	(167, 'telemetry', '0011_history', now()),
	(168, 'telemetry', '0012_rollup_end', now()),
	(169, 'telemetry', '0013_rollup_end_valid', now()),
	(170, 'telemetry', '0014_rollup_months', now()),
	(171, 'telemetry', '0015_task_rollup_months', now()),
	(172, 'templates', '0001_initial', now()),
	(173, 'templates', '0002_names_of_owners', now()),
	(174, 'usage', '0003_rollups', now()),
	(175, 'usage', '0004_triggers', now()),
	(176, 'usage', '0005_sum_old_days', now()),
	(177, 'usage', '0006_usage_merged', now()),
	(178, 'usage', '0007_fairness_measure', now());

INSERT INTO public.operations_alertrule VALUES
	(gen_random_uuid(), now(), now(), 'bad GPUs', 'bad_node', 1, 5, 'notify', true, NULL),
	(gen_random_uuid(), now(), now(), 'nodes away', 'node_away', 10, 0, 'notify', true, NULL),
	(gen_random_uuid(), now(), now(), 'stuck jobs', 'stuck_job', 60, 0, 'notify', true, NULL),
	(gen_random_uuid(), now(), now(), 'full disks', 'full_disk', 95, 5, 'notify', true, NULL),
	(gen_random_uuid(), now(), now(), 'certificates', 'certificate', 14, 0, 'notify', true, NULL),
	(gen_random_uuid(), now(), now(), 'doctor', 'doctor', 2, 60, 'notify', true, NULL);

SELECT pg_catalog.setval('public.account_emailaddress_id_seq', 1, false);

SELECT pg_catalog.setval('public.account_emailconfirmation_id_seq', 1, false);

SELECT pg_catalog.setval('public.accounts_groupmember_id_seq', 1, false);

SELECT pg_catalog.setval('public.accounts_user_groups_id_seq', 1, false);

SELECT pg_catalog.setval('public.accounts_user_id_seq', 1, false);

SELECT pg_catalog.setval('public.accounts_user_user_permissions_id_seq', 1, false);

SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);

SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);

SELECT pg_catalog.setval('public.auth_permission_id_seq', 1, false);

SELECT pg_catalog.setval('public.cluster_announcementdismissal_id_seq', 1, false);

SELECT pg_catalog.setval('public.cluster_celllayout_id_seq', 1, false);

SELECT pg_catalog.setval('public.cluster_controlplane_id_seq', 1, false);

SELECT pg_catalog.setval('public.cluster_nodefault_id_seq', 1, false);

SELECT pg_catalog.setval('public.core_event_id_seq', 1, false);

SELECT pg_catalog.setval('public.django_content_type_id_seq', 1, false);

SELECT pg_catalog.setval('public.django_migrations_id_seq', 178, true);

SELECT pg_catalog.setval('public.files_archive_id_seq', 1, false);

SELECT pg_catalog.setval('public.images_image_virtual_clusters_id_seq', 1, false);

SELECT pg_catalog.setval('public.images_imagerule_id_seq', 1, false);

SELECT pg_catalog.setval('public.images_nodeimage_id_seq', 1, false);

SELECT pg_catalog.setval('public.images_nodeprefetch_id_seq', 1, false);

SELECT pg_catalog.setval('public.interactive_appsession_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_gangnetwork_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_jobattempt_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_jobdependency_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_jobshare_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_jobstorage_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_lease_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_portlease_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_rankchange_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_task_id_seq', 1, false);

SELECT pg_catalog.setval('public.jobs_taskrole_id_seq', 1, false);

SELECT pg_catalog.setval('public.mfa_authenticator_id_seq', 1, false);

SELECT pg_catalog.setval('public.operations_alertrule_recipients_id_seq', 1, false);

SELECT pg_catalog.setval('public.operations_backup_id_seq', 1, false);

SELECT pg_catalog.setval('public.scheduling_change_id_seq', 1, false);

SELECT pg_catalog.setval('public.scheduling_reservation_id_seq', 1, false);

SELECT pg_catalog.setval('public.scheduling_vcuse_id_seq', 1, false);

SELECT pg_catalog.setval('public.socialaccount_socialaccount_id_seq', 1, false);

SELECT pg_catalog.setval('public.socialaccount_socialapp_id_seq', 1, false);

SELECT pg_catalog.setval('public.socialaccount_socialtoken_id_seq', 1, false);

SELECT pg_catalog.setval('public.storage_storagegrant_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_gpuhistory_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_gpurollup_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_logchunk_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_predictionday_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_taskhistory_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_taskrollup_id_seq', 1, false);

SELECT pg_catalog.setval('public.telemetry_usermetric_id_seq', 1, false);

SELECT pg_catalog.setval('public.templates_templatestar_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_membership_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_pinnedcell_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_quota_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_rolegrant_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_vccell_id_seq', 1, false);

SELECT pg_catalog.setval('public.tenancy_vclimit_id_seq', 1, false);

SELECT pg_catalog.setval('public.usage_usageday_id_seq', 1, false);

SELECT pg_catalog.setval('public.usage_usagerollup_id_seq', 1, false);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_email_987c8728_uniq UNIQUE (user_id, email);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_key_key UNIQUE (key);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_accountmail
    ADD CONSTRAINT account_mail_once UNIQUE NULLS NOT DISTINCT (kind, user_id, whom);

ALTER TABLE ONLY public.accounts_accountmail
    ADD CONSTRAINT accounts_accountmail_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_job_id_key UNIQUE (job_id);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY public.accounts_browsersession
    ADD CONSTRAINT accounts_browsersession_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_browsersession
    ADD CONSTRAINT accounts_browsersession_session_key_key UNIQUE (session_key);

ALTER TABLE ONLY public.accounts_devicelogin
    ADD CONSTRAINT accounts_devicelogin_code_digest_key UNIQUE (code_digest);

ALTER TABLE ONLY public.accounts_devicelogin
    ADD CONSTRAINT accounts_devicelogin_device_digest_key UNIQUE (device_digest);

ALTER TABLE ONLY public.accounts_devicelogin
    ADD CONSTRAINT accounts_devicelogin_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_group
    ADD CONSTRAINT accounts_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.accounts_group
    ADD CONSTRAINT accounts_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_groupmember
    ADD CONSTRAINT accounts_groupmember_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_sshkey
    ADD CONSTRAINT accounts_sshkey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_group_id_59c0b32f_uniq UNIQUE (user_id, group_id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permi_user_id_permission_id_2ab516c2_uniq UNIQUE (user_id, permission_id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_username_key UNIQUE (username);

ALTER TABLE ONLY public.cluster_announcementdismissal
    ADD CONSTRAINT announcement_dismissed_once UNIQUE (announcement_id, user_id);

ALTER TABLE ONLY public.interactive_app
    ADD CONSTRAINT app_name_per_job UNIQUE (job_id, name);

ALTER TABLE ONLY public.files_archive
    ADD CONSTRAINT archive_once_per_owner UNIQUE (owner_id, sha256);

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT attempt_once_per_task UNIQUE (task_id, index, retry);

ALTER TABLE ONLY public.audit_entry
    ADD CONSTRAINT audit_entry_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_entry_default
    ADD CONSTRAINT audit_entry_default_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.telemetry_logchunk
    ADD CONSTRAINT chunk_once UNIQUE (attempt_id, stream, "offset");

ALTER TABLE ONLY public.cluster_announcement
    ADD CONSTRAINT cluster_announcement_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_announcementdismissal
    ADD CONSTRAINT cluster_announcementdismissal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_celllayout
    ADD CONSTRAINT cluster_celllayout_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_controlplane
    ADD CONSTRAINT cluster_controlplane_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_device
    ADD CONSTRAINT cluster_device_pkey PRIMARY KEY (uuid);

ALTER TABLE ONLY public.cluster_jointoken
    ADD CONSTRAINT cluster_jointoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_jointoken
    ADD CONSTRAINT cluster_jointoken_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.cluster_maintenancewindow
    ADD CONSTRAINT cluster_maintenancewindow_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_node
    ADD CONSTRAINT cluster_node_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_nodecheck
    ADD CONSTRAINT cluster_nodecheck_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_nodefault
    ADD CONSTRAINT cluster_nodefault_attempt_id_key UNIQUE (attempt_id);

ALTER TABLE ONLY public.cluster_nodefault
    ADD CONSTRAINT cluster_nodefault_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.core_event
    ADD CONSTRAINT core_event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.core_leadership
    ADD CONSTRAINT core_leadership_pkey PRIMARY KEY (role);

ALTER TABLE ONLY public.storage_dataset
    ADD CONSTRAINT dataset_version_once UNIQUE (vc_id, name, version);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);

ALTER TABLE ONLY public.files_archive
    ADD CONSTRAINT files_archive_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_gangnetwork
    ADD CONSTRAINT gang_addresses_once EXCLUDE USING gist (addresses WITH &&);

ALTER TABLE ONLY public.jobs_gangnetwork
    ADD CONSTRAINT gang_network_once UNIQUE (job_id, index);

ALTER TABLE ONLY public.telemetry_gpuhistory
    ADD CONSTRAINT gpu_history_once UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id, seconds);

ALTER TABLE ONLY public.telemetry_gpurollup
    ADD CONSTRAINT gpu_rollup_once UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id);

ALTER TABLE ONLY public.accounts_groupmember
    ADD CONSTRAINT group_member_once UNIQUE (group_id, user_id);

ALTER TABLE ONLY public.images_imagerule
    ADD CONSTRAINT image_rule_once UNIQUE (vc_id, pattern);

ALTER TABLE ONLY public.images_image
    ADD CONSTRAINT images_image_name_key UNIQUE (name);

ALTER TABLE ONLY public.images_image
    ADD CONSTRAINT images_image_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_image_virtual_clusters
    ADD CONSTRAINT images_image_virtual_clu_image_id_virtualcluster__f7f90b33_uniq UNIQUE (image_id, virtualcluster_id);

ALTER TABLE ONLY public.images_image_virtual_clusters
    ADD CONSTRAINT images_image_virtual_clusters_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_imagerule
    ADD CONSTRAINT images_imagerule_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_nodeimage
    ADD CONSTRAINT images_nodeimage_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_nodeprefetch
    ADD CONSTRAINT images_nodeprefetch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_prefetch
    ADD CONSTRAINT images_prefetch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_registrycredential
    ADD CONSTRAINT images_registrycredential_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.interactive_app
    ADD CONSTRAINT interactive_app_label_key UNIQUE (label);

ALTER TABLE ONLY public.interactive_app
    ADD CONSTRAINT interactive_app_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsession_code_digest_key UNIQUE (code_digest);

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsession_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsession_token_digest_key UNIQUE (token_digest);

ALTER TABLE ONLY public.jobs_jobattempt
    ADD CONSTRAINT job_attempt_once UNIQUE (job_id, index);

ALTER TABLE ONLY public.jobs_jobdependency
    ADD CONSTRAINT job_dependency_once UNIQUE (job_id, upstream_id, condition);

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT job_name_per_owner UNIQUE (owner_id, name);

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT job_share_group_once UNIQUE (job_id, group_id);

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT job_share_user_once UNIQUE (job_id, user_id);

ALTER TABLE ONLY public.jobs_archivedjob
    ADD CONSTRAINT jobs_archivedjob_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_gangnetwork
    ADD CONSTRAINT jobs_gangnetwork_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_gangnetwork
    ADD CONSTRAINT jobs_gangnetwork_vni_key UNIQUE (vni);

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobapitoken
    ADD CONSTRAINT jobs_jobapitoken_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.jobs_jobattempt
    ADD CONSTRAINT jobs_jobattempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobdependency
    ADD CONSTRAINT jobs_jobdependency_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobfiles
    ADD CONSTRAINT jobs_jobfiles_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.jobs_jobsecrets
    ADD CONSTRAINT jobs_jobsecrets_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT jobs_jobshare_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobstorage
    ADD CONSTRAINT jobs_jobstorage_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_lease
    ADD CONSTRAINT jobs_lease_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_portlease
    ADD CONSTRAINT jobs_portlease_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_rankchange
    ADD CONSTRAINT jobs_rankchange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_savedview
    ADD CONSTRAINT jobs_savedview_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_task
    ADD CONSTRAINT jobs_task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT jobs_taskattempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_taskrole
    ADD CONSTRAINT jobs_taskrole_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_membership
    ADD CONSTRAINT membership_once UNIQUE (vc_id, user_id);

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.images_nodeimage
    ADD CONSTRAINT node_image_once UNIQUE (node_id, reference);

ALTER TABLE ONLY public.notifications_delivery
    ADD CONSTRAINT notifications_delivery_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notifications_notification
    ADD CONSTRAINT notifications_notification_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notifications_preferences
    ADD CONSTRAINT notifications_preferences_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.notifications_webhook
    ADD CONSTRAINT notifications_webhook_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_alert
    ADD CONSTRAINT operations_alert_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_alertrule
    ADD CONSTRAINT operations_alertrule_name_key UNIQUE (name);

ALTER TABLE ONLY public.operations_alertrule
    ADD CONSTRAINT operations_alertrule_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_alertrule_recipients
    ADD CONSTRAINT operations_alertrule_rec_alertrule_id_user_id_556cb4e0_uniq UNIQUE (alertrule_id, user_id);

ALTER TABLE ONLY public.operations_alertrule_recipients
    ADD CONSTRAINT operations_alertrule_recipients_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operations_backup
    ADD CONSTRAINT operations_backup_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.telemetry_predictionday
    ADD CONSTRAINT prediction_day_once UNIQUE (day, source);

ALTER TABLE ONLY public.images_nodeprefetch
    ADD CONSTRAINT prefetch_once_on_node UNIQUE (prefetch_id, node_id);

ALTER TABLE ONLY public.tenancy_quota
    ADD CONSTRAINT quota_once UNIQUE (vc_id, gpu_model);

ALTER TABLE ONLY public.images_registrycredential
    ADD CONSTRAINT registry_credential_of_user UNIQUE (user_id, registry);

ALTER TABLE ONLY public.images_registrycredential
    ADD CONSTRAINT registry_credential_of_vc UNIQUE (vc_id, registry);

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT role_grant_group_once UNIQUE (vc_id, group_id);

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT role_grant_user_once UNIQUE (vc_id, user_id);

ALTER TABLE ONLY public.jobs_taskrole
    ADD CONSTRAINT role_once UNIQUE (job_id, name);

ALTER TABLE ONLY public.jobs_savedview
    ADD CONSTRAINT saved_view_once UNIQUE (user_id, name);

ALTER TABLE ONLY public.scheduling_attainedservice
    ADD CONSTRAINT scheduling_attainedservice_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.scheduling_change
    ADD CONSTRAINT scheduling_change_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scheduling_expectedstart
    ADD CONSTRAINT scheduling_expectedstart_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.scheduling_preemptioncooldown
    ADD CONSTRAINT scheduling_preemptioncooldown_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.scheduling_reservation
    ADD CONSTRAINT scheduling_reservation_job_id_key UNIQUE (job_id);

ALTER TABLE ONLY public.scheduling_reservation
    ADD CONSTRAINT scheduling_reservation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scheduling_reservedstart
    ADD CONSTRAINT scheduling_reservedstart_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.scheduling_vctimeline
    ADD CONSTRAINT scheduling_vctimeline_pkey PRIMARY KEY (vc_id);

ALTER TABLE ONLY public.scheduling_vcuse
    ADD CONSTRAINT scheduling_vcuse_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_serviceaccount
    ADD CONSTRAINT service_account_once UNIQUE (vc_id, name);

ALTER TABLE ONLY public.simulations_simulation
    ADD CONSTRAINT simulations_simulation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_provider_uid_fc810c6e_uniq UNIQUE (provider, uid);

ALTER TABLE ONLY public.socialaccount_socialapp
    ADD CONSTRAINT socialaccount_socialapp_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_app_id_account_id_fca4e0ac_uniq UNIQUE (app_id, account_id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_sshkey
    ADD CONSTRAINT ssh_key_name_once UNIQUE (user_id, name);

ALTER TABLE ONLY public.accounts_sshkey
    ADD CONSTRAINT ssh_key_once UNIQUE (user_id, fingerprint);

ALTER TABLE ONLY public.templates_templatestar
    ADD CONSTRAINT star_once UNIQUE (template_id, user_id);

ALTER TABLE ONLY public.storage_dataset
    ADD CONSTRAINT storage_dataset_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_grant_group_once UNIQUE (storage_id, group_id);

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_grant_once UNIQUE (storage_id, vc_id);

ALTER TABLE ONLY public.storage_storage
    ADD CONSTRAINT storage_storage_name_key UNIQUE (name);

ALTER TABLE ONLY public.storage_storage
    ADD CONSTRAINT storage_storage_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_storagegrant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobstorage
    ADD CONSTRAINT storage_target_once UNIQUE (job_id, target);

ALTER TABLE ONLY public.telemetry_taskhistory
    ADD CONSTRAINT task_history_once UNIQUE (attempt_id, at, seconds);

ALTER TABLE ONLY public.jobs_task
    ADD CONSTRAINT task_rank_once UNIQUE (job_id, rank);

ALTER TABLE ONLY public.telemetry_taskrollup
    ADD CONSTRAINT task_rollup_once UNIQUE (attempt_id, at);

ALTER TABLE ONLY public.telemetry_gpudays
    ADD CONSTRAINT telemetry_gpudays_device_id_at_attempt_id_seconds_key UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id, seconds);

ALTER TABLE ONLY public.telemetry_gpudays_default
    ADD CONSTRAINT telemetry_gpudays_default_device_id_at_attempt_id_seconds_key UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id, seconds);

ALTER TABLE ONLY public.telemetry_gpuhours
    ADD CONSTRAINT telemetry_gpuhours_device_id_at_attempt_id_seconds_key UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id, seconds);

ALTER TABLE ONLY public.telemetry_gpuhours_default
    ADD CONSTRAINT telemetry_gpuhours_default_device_id_at_attempt_id_seconds_key UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id, seconds);

ALTER TABLE ONLY public.telemetry_gpurollup_default
    ADD CONSTRAINT telemetry_gpurollup_default_device_id_at_attempt_id_key UNIQUE NULLS NOT DISTINCT (device_id, at, attempt_id);

ALTER TABLE ONLY public.telemetry_jobuse
    ADD CONSTRAINT telemetry_jobuse_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.telemetry_logchunk
    ADD CONSTRAINT telemetry_logchunk_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.telemetry_metriclog
    ADD CONSTRAINT telemetry_metriclog_pkey PRIMARY KEY (attempt_id);

ALTER TABLE ONLY public.telemetry_predictionday
    ADD CONSTRAINT telemetry_predictionday_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.telemetry_taskdays
    ADD CONSTRAINT telemetry_taskdays_attempt_id_at_seconds_key UNIQUE (attempt_id, at, seconds);

ALTER TABLE ONLY public.telemetry_taskdays_default
    ADD CONSTRAINT telemetry_taskdays_default_attempt_id_at_seconds_key UNIQUE (attempt_id, at, seconds);

ALTER TABLE ONLY public.telemetry_taskhours
    ADD CONSTRAINT telemetry_taskhours_attempt_id_at_seconds_key UNIQUE (attempt_id, at, seconds);

ALTER TABLE ONLY public.telemetry_taskhours_default
    ADD CONSTRAINT telemetry_taskhours_default_attempt_id_at_seconds_key UNIQUE (attempt_id, at, seconds);

ALTER TABLE ONLY public.telemetry_taskrollup_default
    ADD CONSTRAINT telemetry_taskrollup_default_attempt_id_at_key UNIQUE (attempt_id, at);

ALTER TABLE ONLY public.telemetry_usermetric
    ADD CONSTRAINT telemetry_usermetric_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.templates_template
    ADD CONSTRAINT template_name_of_owner UNIQUE (owner_id, name);

ALTER TABLE ONLY public.templates_template
    ADD CONSTRAINT templates_template_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.templates_templatestar
    ADD CONSTRAINT templates_templatestar_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_membership
    ADD CONSTRAINT tenancy_membership_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_pinnedcell
    ADD CONSTRAINT tenancy_pinnedcell_name_key UNIQUE (name);

ALTER TABLE ONLY public.tenancy_pinnedcell
    ADD CONSTRAINT tenancy_pinnedcell_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_quota
    ADD CONSTRAINT tenancy_quota_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT tenancy_rolegrant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_serviceaccount
    ADD CONSTRAINT tenancy_serviceaccount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_serviceaccount
    ADD CONSTRAINT tenancy_serviceaccount_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.tenancy_vccell
    ADD CONSTRAINT tenancy_vccell_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_vclimit
    ADD CONSTRAINT tenancy_vclimit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenancy_virtualcluster
    ADD CONSTRAINT tenancy_virtualcluster_name_key UNIQUE (name);

ALTER TABLE ONLY public.tenancy_virtualcluster
    ADD CONSTRAINT tenancy_virtualcluster_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.usage_budget
    ADD CONSTRAINT usage_budget_pkey PRIMARY KEY (vc_id);

ALTER TABLE ONLY public.usage_usageday
    ADD CONSTRAINT usage_day_once UNIQUE NULLS NOT DISTINCT (job_id, day, gpu_model, guaranteed, vc_id, user_id);

ALTER TABLE ONLY public.usage_fairnessmeasure
    ADD CONSTRAINT usage_fairnessmeasure_pkey PRIMARY KEY (vc_id);

ALTER TABLE ONLY public.usage_jobusage
    ADD CONSTRAINT usage_jobusage_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.usage_usagerollup
    ADD CONSTRAINT usage_rollup_once UNIQUE NULLS NOT DISTINCT (monthly, day, vc_id, user_id, gpu_model, guaranteed);

ALTER TABLE ONLY public.usage_usageday
    ADD CONSTRAINT usage_usageday_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.usage_usagerollup
    ADD CONSTRAINT usage_usagerollup_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.scheduling_vcuse
    ADD CONSTRAINT use_once UNIQUE (vc_id, gpu_model, at);

ALTER TABLE ONLY public.telemetry_usermetric
    ADD CONSTRAINT user_metric_once UNIQUE (attempt_id, name);

ALTER TABLE ONLY public.tenancy_vccell
    ADD CONSTRAINT vc_cell_once UNIQUE (vc_id, chain, cell_type);

ALTER TABLE ONLY public.tenancy_vclimit
    ADD CONSTRAINT vc_limit_once UNIQUE (vc_id, name);

ALTER TABLE ONLY public.notifications_webhook
    ADD CONSTRAINT webhook_name_once UNIQUE (user_id, name);

CREATE INDEX account_emailaddress_email_03be32b2 ON public.account_emailaddress USING btree (email);

CREATE INDEX account_emailaddress_email_03be32b2_like ON public.account_emailaddress USING btree (email varchar_pattern_ops);

CREATE INDEX account_emailaddress_user_id_2c513194 ON public.account_emailaddress USING btree (user_id);

CREATE INDEX account_emailconfirmation_email_address_id_5b7f8c58 ON public.account_emailconfirmation USING btree (email_address_id);

CREATE INDEX account_emailconfirmation_key_f43612bd_like ON public.account_emailconfirmation USING btree (key varchar_pattern_ops);

CREATE INDEX accounts_accountmail_due_at_43844af1 ON public.accounts_accountmail USING btree (due_at);

CREATE INDEX accounts_accountmail_user_id_900eda0b ON public.accounts_accountmail USING btree (user_id);

CREATE INDEX accounts_apitoken_digest_63ccb187_like ON public.accounts_apitoken USING btree (digest varchar_pattern_ops);

CREATE INDEX accounts_apitoken_token_key_8fc3309f ON public.accounts_apitoken USING btree (token_key);

CREATE INDEX accounts_apitoken_token_key_8fc3309f_like ON public.accounts_apitoken USING btree (token_key varchar_pattern_ops);

CREATE INDEX accounts_apitoken_user_id_bbee13e0 ON public.accounts_apitoken USING btree (user_id);

CREATE INDEX accounts_browsersession_session_key_3a582e24_like ON public.accounts_browsersession USING btree (session_key varchar_pattern_ops);

CREATE INDEX accounts_browsersession_user_id_b0cb11d3 ON public.accounts_browsersession USING btree (user_id);

CREATE INDEX accounts_devicelogin_code_digest_7172fd70_like ON public.accounts_devicelogin USING btree (code_digest varchar_pattern_ops);

CREATE INDEX accounts_devicelogin_device_digest_0d2cb1c0_like ON public.accounts_devicelogin USING btree (device_digest varchar_pattern_ops);

CREATE INDEX accounts_devicelogin_expires_at_4dd3003e ON public.accounts_devicelogin USING btree (expires_at);

CREATE INDEX accounts_devicelogin_user_id_6bc6a898 ON public.accounts_devicelogin USING btree (user_id);

CREATE INDEX accounts_group_name_5311469e_like ON public.accounts_group USING btree (name varchar_pattern_ops);

CREATE INDEX accounts_groupmember_group_id_590adbea ON public.accounts_groupmember USING btree (group_id);

CREATE INDEX accounts_groupmember_user_id_df97a2a7 ON public.accounts_groupmember USING btree (user_id);

CREATE INDEX accounts_user_groups_group_id_bd11a704 ON public.accounts_user_groups USING btree (group_id);

CREATE INDEX accounts_user_groups_user_id_52b62117 ON public.accounts_user_groups USING btree (user_id);

CREATE INDEX accounts_user_user_permissions_permission_id_113bb443 ON public.accounts_user_user_permissions USING btree (permission_id);

CREATE INDEX accounts_user_user_permissions_user_id_e4f0a161 ON public.accounts_user_user_permissions USING btree (user_id);

CREATE INDEX accounts_user_username_6088629e_like ON public.accounts_user USING btree (username varchar_pattern_ops);

CREATE INDEX alert_by_end ON public.operations_alert USING btree (ended_at);

CREATE UNIQUE INDEX alert_once ON public.operations_alert USING btree (rule_id, subject) WHERE (ended_at IS NULL);

CREATE INDEX app_session_expiry ON public.interactive_appsession USING btree (expires_at);

CREATE INDEX archive_by_hash ON public.files_archive USING btree (sha256);

CREATE INDEX archive_by_use ON public.files_archive USING btree (used_at);

CREATE INDEX archived_by_owner ON public.jobs_archivedjob USING btree (owner_id, submitted_at DESC);

CREATE INDEX archived_by_vc ON public.jobs_archivedjob USING btree (vc_id, submitted_at DESC);

CREATE INDEX archived_name_search ON public.jobs_archivedjob USING gin (upper((name)::text) public.gin_trgm_ops);

CREATE INDEX archived_newest ON public.jobs_archivedjob USING btree (submitted_at DESC, id);

CREATE INDEX archived_oldest ON public.jobs_archivedjob USING btree (archived_at);

CREATE INDEX archived_opened ON public.jobs_archivedjob USING btree (submitted_at DESC, id) WHERE (NOT ((visibility)::text = ''::text));

CREATE INDEX attempt_by_job ON public.jobs_taskattempt USING btree (job_id, index);

CREATE INDEX attempt_on_node ON public.jobs_taskattempt USING btree (node_id) WHERE (released_at IS NULL);

CREATE UNIQUE INDEX attempt_one_alive ON public.jobs_taskattempt USING btree (task_id) WHERE (released_at IS NULL);

CREATE INDEX audit_action ON ONLY public.audit_entry USING btree (action, id);

CREATE INDEX audit_actor_id ON ONLY public.audit_entry USING btree (actor_id, id);

CREATE INDEX audit_actor_name ON ONLY public.audit_entry USING btree (actor_name, id);

CREATE INDEX audit_address ON ONLY public.audit_entry USING btree (address, id);

CREATE INDEX audit_entry_default_action_id_idx ON public.audit_entry_default USING btree (action, id);

CREATE INDEX audit_entry_default_actor_id_id_idx ON public.audit_entry_default USING btree (actor_id, id);

CREATE INDEX audit_entry_default_actor_name_id_idx ON public.audit_entry_default USING btree (actor_name, id);

CREATE INDEX audit_entry_default_address_id_idx ON public.audit_entry_default USING btree (address, id);

CREATE INDEX audit_refused ON ONLY public.audit_entry USING btree (id) WHERE ((outcome)::text = 'refused'::text);

CREATE INDEX audit_entry_default_id_idx ON public.audit_entry_default USING btree (id) WHERE ((outcome)::text = 'refused'::text);

CREATE INDEX audit_target_type ON ONLY public.audit_entry USING btree (target_type, id);

CREATE INDEX audit_entry_default_target_type_id_idx ON public.audit_entry_default USING btree (target_type, id);

CREATE INDEX audit_target_name ON ONLY public.audit_entry USING gin (upper((target_name)::text) public.gin_trgm_ops);

CREATE INDEX audit_entry_default_upper_idx ON public.audit_entry_default USING gin (upper((target_name)::text) public.gin_trgm_ops);

CREATE INDEX audit_vc ON ONLY public.audit_entry USING btree (vc_id, id);

CREATE INDEX audit_entry_default_vc_id_id_idx ON public.audit_entry_default USING btree (vc_id, id);

CREATE INDEX audit_refused_vc ON ONLY public.audit_entry USING btree (vc_id, id) WHERE ((outcome)::text = 'refused'::text);

CREATE INDEX audit_entry_default_vc_id_id_idx1 ON public.audit_entry_default USING btree (vc_id, id) WHERE ((outcome)::text = 'refused'::text);

CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);

CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);

CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);

CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);

CREATE INDEX backup_by_age ON public.operations_backup USING btree (at DESC);

CREATE INDEX change_pruned ON public.scheduling_change USING btree (txid) WHERE ((kind)::text = 'pruned'::text);

CREATE INDEX check_by_node ON public.cluster_nodecheck USING btree (node_id, id DESC);

CREATE INDEX chunk_by_attempt ON public.telemetry_logchunk USING btree (attempt_id, id);

CREATE INDEX chunk_by_job ON public.telemetry_logchunk USING btree (job_id, id);

CREATE INDEX cluster_announcement_created_by_id_f1278dc8 ON public.cluster_announcement USING btree (created_by_id);

CREATE INDEX cluster_announcementdismissal_announcement_id_0594373d ON public.cluster_announcementdismissal USING btree (announcement_id);

CREATE INDEX cluster_announcementdismissal_user_id_1e2016b2 ON public.cluster_announcementdismissal USING btree (user_id);

CREATE INDEX cluster_device_model_8e3acdfc ON public.cluster_device USING btree (model);

CREATE INDEX cluster_device_model_8e3acdfc_like ON public.cluster_device USING btree (model varchar_pattern_ops);

CREATE INDEX cluster_device_node_id_9e72d7dc ON public.cluster_device USING btree (node_id);

CREATE INDEX cluster_device_uuid_92ee3473_like ON public.cluster_device USING btree (uuid varchar_pattern_ops);

CREATE INDEX cluster_jointoken_created_by_id_0c9b71d6 ON public.cluster_jointoken USING btree (created_by_id);

CREATE INDEX cluster_jointoken_token_hash_4bd7f149_like ON public.cluster_jointoken USING btree (token_hash varchar_pattern_ops);

CREATE INDEX cluster_maintenancewindow_created_by_id_de35a1b7 ON public.cluster_maintenancewindow USING btree (created_by_id);

CREATE INDEX cluster_maintenancewindow_node_id_3dd70472 ON public.cluster_maintenancewindow USING btree (node_id);

CREATE INDEX cluster_node_credential_hash_08b2ccff ON public.cluster_node USING btree (credential_hash);

CREATE INDEX cluster_node_credential_hash_08b2ccff_like ON public.cluster_node USING btree (credential_hash varchar_pattern_ops);

CREATE INDEX cluster_nodecheck_node_id_750aaacb ON public.cluster_nodecheck USING btree (node_id);

CREATE INDEX cluster_nodefault_node_id_e32441e8 ON public.cluster_nodefault USING btree (node_id);

CREATE INDEX core_event_subject_18fc25_idx ON public.core_event USING btree (subject_type, subject_id, id);

CREATE INDEX core_leadership_role_557c2219_like ON public.core_leadership USING btree (role varchar_pattern_ops);

CREATE INDEX delivery_age ON public.notifications_delivery USING btree (created_at);

CREATE INDEX delivery_due ON public.notifications_delivery USING btree (channel, due_at) WHERE ((state)::text = 'pending'::text);

CREATE INDEX delivery_of_user ON public.notifications_delivery USING btree (user_id, id DESC);

CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);

CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);

CREATE INDEX event_to_notify ON public.core_event USING btree (id) WHERE notify;

CREATE INDEX fault_by_node ON public.cluster_nodefault USING btree (node_id, at DESC);

CREATE INDEX fault_counted ON public.cluster_nodefault USING btree (at) WHERE (witness IS NOT NULL);

CREATE INDEX files_archive_owner_id_1156b396 ON public.files_archive USING btree (owner_id);

CREATE INDEX gpu_history_by_attempt ON ONLY public.telemetry_gpuhistory USING btree (attempt_id, at);

CREATE INDEX gpu_history_oldest ON ONLY public.telemetry_gpuhistory USING btree (at);

CREATE INDEX gpu_rollup_by_attempt ON ONLY public.telemetry_gpurollup USING btree (attempt_id, at);

CREATE INDEX gpu_rollup_oldest ON ONLY public.telemetry_gpurollup USING btree (seconds, at);

CREATE UNIQUE INDEX group_external_name_once ON public.accounts_group USING btree (external_name) WHERE (NOT ((external_name)::text = ''::text));

CREATE INDEX image_save_of_user ON public.jobs_imagesave USING btree (created_by_id, created_at DESC);

CREATE UNIQUE INDEX image_save_once_of_attempt ON public.jobs_imagesave USING btree (attempt_id) WHERE ((state)::text = ANY (ARRAY[('WAITING'::character varying)::text, ('SAVING'::character varying)::text, ('PUSHING'::character varying)::text]));

CREATE INDEX image_save_open_on_node ON public.jobs_imagesave USING btree (node_id) WHERE ((state)::text = ANY (ARRAY[('WAITING'::character varying)::text, ('SAVING'::character varying)::text, ('PUSHING'::character varying)::text]));

CREATE INDEX images_image_created_by_id_176f17ff ON public.images_image USING btree (created_by_id);

CREATE INDEX images_image_managed_by_id_d652fc28 ON public.images_image USING btree (managed_by_id);

CREATE INDEX images_image_name_43daff6a_like ON public.images_image USING btree (name varchar_pattern_ops);

CREATE INDEX images_image_virtual_clusters_image_id_2f378d99 ON public.images_image_virtual_clusters USING btree (image_id);

CREATE INDEX images_image_virtual_clusters_virtualcluster_id_135d9501 ON public.images_image_virtual_clusters USING btree (virtualcluster_id);

CREATE INDEX images_imagerule_vc_id_e7ac2382 ON public.images_imagerule USING btree (vc_id);

CREATE INDEX images_nodeimage_node_id_99fe5cd9 ON public.images_nodeimage USING btree (node_id);

CREATE INDEX images_nodeimage_reference_12d4245a ON public.images_nodeimage USING btree (reference);

CREATE INDEX images_nodeimage_reference_12d4245a_like ON public.images_nodeimage USING btree (reference varchar_pattern_ops);

CREATE INDEX images_nodeprefetch_node_id_b4bfa0f5 ON public.images_nodeprefetch USING btree (node_id);

CREATE INDEX images_nodeprefetch_prefetch_id_8d883572 ON public.images_nodeprefetch USING btree (prefetch_id);

CREATE INDEX images_prefetch_created_by_id_0ddd9125 ON public.images_prefetch USING btree (created_by_id);

CREATE INDEX images_prefetch_vc_id_8da1ab8a ON public.images_prefetch USING btree (vc_id);

CREATE INDEX images_registrycredential_user_id_cfd2e53e ON public.images_registrycredential USING btree (user_id);

CREATE INDEX images_registrycredential_vc_id_59aac7c3 ON public.images_registrycredential USING btree (vc_id);

CREATE INDEX interactive_app_job_id_b3da9185 ON public.interactive_app USING btree (job_id);

CREATE INDEX interactive_app_label_48917efd_like ON public.interactive_app USING btree (label varchar_pattern_ops);

CREATE INDEX interactive_appsession_app_id_529c3eea ON public.interactive_appsession USING btree (app_id);

CREATE INDEX interactive_appsession_code_digest_f08c8081_like ON public.interactive_appsession USING btree (code_digest varchar_pattern_ops);

CREATE INDEX interactive_appsession_login_id_ca72e120 ON public.interactive_appsession USING btree (login_id);

CREATE INDEX interactive_appsession_login_id_ca72e120_like ON public.interactive_appsession USING btree (login_id varchar_pattern_ops);

CREATE INDEX interactive_appsession_token_digest_4e5ba331_like ON public.interactive_appsession USING btree (token_digest varchar_pattern_ops);

CREATE INDEX interactive_appsession_user_id_319beab3 ON public.interactive_appsession USING btree (user_id);

CREATE INDEX job_by_base_name ON public.jobs_job USING btree (owner_id, COALESCE(NULLIF(regexp_replace((name)::text, '[-_.]([0-9]{1,9}|[0-9a-f]{8})$'::text, ''::text), ''::text), (name)::text), created_at DESC) WHERE (((state)::text = 'SUCCEEDED'::text) AND (started_at IS NOT NULL) AND (finished_at IS NOT NULL));

CREATE INDEX job_by_cause ON public.jobs_job USING gin (diagnosis jsonb_path_ops) WHERE (diagnosis IS NOT NULL);

CREATE INDEX job_by_class ON public.jobs_job USING btree (priority_class, created_at DESC);

CREATE INDEX job_by_command ON public.jobs_job USING btree (owner_id, command_key, created_at DESC) WHERE ((finished_at IS NOT NULL) AND (started_at IS NOT NULL) AND ((state)::text = 'SUCCEEDED'::text));

CREATE INDEX job_by_owner ON public.jobs_job USING btree (owner_id, created_at DESC);

CREATE INDEX job_by_root ON public.jobs_job USING btree (root_id) WHERE (root_id IS NOT NULL);

CREATE INDEX job_by_state ON public.jobs_job USING btree (state, created_at DESC);

CREATE INDEX job_by_vc ON public.jobs_job USING btree (vc_id, created_at DESC);

CREATE UNIQUE INDEX job_client_token ON public.jobs_job USING btree (owner_id, client_token) WHERE (NOT ((client_token)::text = ''::text));

CREATE INDEX job_diagnosing ON public.jobs_job USING btree (diagnosing_at) WHERE (diagnosing_at IS NOT NULL);

CREATE INDEX job_ends ON public.jobs_job USING btree (ends_at) WHERE (ends_at IS NOT NULL);

CREATE INDEX job_for_everyone ON public.jobs_job USING btree (created_at DESC, id) WHERE ((visibility)::text = 'everyone'::text);

CREATE INDEX job_for_members ON public.jobs_job USING btree (vc_id, created_at DESC) WHERE ((visibility)::text = 'members'::text);

CREATE INDEX job_in_queue ON public.jobs_job USING btree (vc_id, priority DESC, created_at) WHERE ((state)::text = 'WAITING'::text);

CREATE INDEX job_incomplete ON public.jobs_job USING btree (id) WHERE (unplaced > 0);

CREATE INDEX job_metrics_due ON public.jobs_job USING btree (state) WHERE (metrics_rank IS NOT NULL);

CREATE INDEX job_name_search ON public.jobs_job USING gin (upper((name)::text) public.gin_trgm_ops);

CREATE INDEX job_newest ON public.jobs_job USING btree (created_at DESC, id);

CREATE INDEX job_order_finished ON public.jobs_job USING btree (finished_at, id);

CREATE INDEX job_order_gpus ON public.jobs_job USING btree (gpus, id);

CREATE INDEX job_order_name ON public.jobs_job USING btree (name, id);

CREATE INDEX job_order_priority ON public.jobs_job USING btree (priority, id);

CREATE INDEX job_order_retries ON public.jobs_job USING btree ((((retries_used + free_retries) + preemptions)), id);

CREATE INDEX job_order_state ON public.jobs_job USING btree (state, id);

CREATE INDEX job_order_tasks ON public.jobs_job USING btree (tasks_total, id);

CREATE INDEX job_tags ON public.jobs_job USING gin (tags);

CREATE INDEX job_uncounted ON public.jobs_job USING btree (finished_at) WHERE ((finished_at IS NOT NULL) AND (NOT use_counted));

CREATE INDEX job_usage_by_allocated ON public.usage_jobusage USING btree (month, allocated_us, job_id);

CREATE INDEX job_usage_by_days ON public.usage_jobusage USING gist (daterange(first_day, last_day, '[]'::text));

CREATE INDEX job_usage_by_idle ON public.usage_jobusage USING btree (month, idle_us, job_id);

CREATE INDEX job_usage_by_job ON public.usage_jobusage USING btree (month, job_id);

CREATE INDEX job_usage_by_used ON public.usage_jobusage USING btree (month, used_us, job_id);

CREATE INDEX job_usage_by_user ON public.usage_jobusage USING btree (user_id, month);

CREATE INDEX job_usage_by_vc ON public.usage_jobusage USING btree (vc_id, month);

CREATE INDEX job_usage_of_models ON public.usage_jobusage USING btree (last_day) WHERE (gpu_model IS NULL);

CREATE INDEX job_with_dependencies ON public.jobs_job USING btree (id) WHERE (awaits_dependencies AND ((state)::text = 'WAITING'::text));

CREATE INDEX job_with_logs ON public.jobs_job USING btree (finished_at) WHERE ((finished_at IS NOT NULL) AND (logs_deleted_at IS NULL));

CREATE INDEX jobs_gangnetwork_job_id_ab192e6f ON public.jobs_gangnetwork USING btree (job_id);

CREATE INDEX jobs_imagesave_attempt_id_895d3cb9 ON public.jobs_imagesave USING btree (attempt_id);

CREATE INDEX jobs_imagesave_job_id_8db251fe ON public.jobs_imagesave USING btree (job_id);

CREATE INDEX jobs_imagesave_vc_id_0d1b08ef ON public.jobs_imagesave USING btree (vc_id);

CREATE INDEX jobs_job_parent_id_675bb714 ON public.jobs_job USING btree (parent_id);

CREATE INDEX jobs_jobdependency_job_id_ea51aedf ON public.jobs_jobdependency USING btree (job_id);

CREATE INDEX jobs_jobdependency_upstream_id_3166a683 ON public.jobs_jobdependency USING btree (upstream_id);

CREATE INDEX jobs_jobfiles_archive_id_fbb41dfe ON public.jobs_jobfiles USING btree (archive_id);

CREATE INDEX jobs_jobshare_group_id_0ab465f1 ON public.jobs_jobshare USING btree (group_id);

CREATE INDEX jobs_jobshare_shared_by_id_bd2dc9f7 ON public.jobs_jobshare USING btree (shared_by_id);

CREATE INDEX jobs_jobshare_user_id_f6a1dc8e ON public.jobs_jobshare USING btree (user_id);

CREATE INDEX jobs_jobstorage_dataset_id_03040468 ON public.jobs_jobstorage USING btree (dataset_id);

CREATE INDEX jobs_jobstorage_job_id_f8a18fb2 ON public.jobs_jobstorage USING btree (job_id);

CREATE INDEX jobs_jobstorage_storage_id_ac16de26 ON public.jobs_jobstorage USING btree (storage_id);

CREATE INDEX jobs_lease_attempt_id_2916cf2d ON public.jobs_lease USING btree (attempt_id);

CREATE INDEX jobs_lease_device_id_a3854b4a ON public.jobs_lease USING btree (device_id);

CREATE INDEX jobs_lease_device_id_a3854b4a_like ON public.jobs_lease USING btree (device_id varchar_pattern_ops);

CREATE INDEX jobs_portlease_attempt_id_a0bb0ff6 ON public.jobs_portlease USING btree (attempt_id);

CREATE INDEX jobs_portlease_node_id_91159697 ON public.jobs_portlease USING btree (node_id);

CREATE INDEX jobs_task_role_id_98c6c459 ON public.jobs_task USING btree (role_id);

CREATE INDEX jobs_taskattempt_node_id_1af5ac4f ON public.jobs_taskattempt USING btree (node_id);

CREATE INDEX jobs_taskattempt_role_id_a26b5e66 ON public.jobs_taskattempt USING btree (role_id);

CREATE UNIQUE INDEX lease_slot_held_once ON public.jobs_lease USING btree (device_id, slot) WHERE (released_at IS NULL);

CREATE INDEX lease_uncounted ON public.jobs_lease USING btree (id) WHERE ((released_at IS NULL) OR (counted_until IS NULL) OR (NOT ((counted_until = released_at) AND (counted_until IS NOT NULL) AND (released_at IS NOT NULL))));

CREATE INDEX maintenance_open ON public.cluster_maintenancewindow USING btree (node_id, starts_at) WHERE ((state)::text = ANY (ARRAY[('PLANNED'::character varying)::text, ('ACTIVE'::character varying)::text]));

CREATE INDEX metric_log_by_age ON public.telemetry_metriclog USING btree (at);

CREATE INDEX metric_log_due ON public.telemetry_metriclog USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX mfa_authenticator_user_id_0c3a50c0 ON public.mfa_authenticator USING btree (user_id);

CREATE UNIQUE INDEX node_name_once ON public.cluster_node USING btree (name) WHERE (NOT ((state)::text = 'REMOVED'::text));

CREATE INDEX notification_age ON public.notifications_notification USING btree (created_at);

CREATE INDEX notification_of_user ON public.notifications_notification USING btree (user_id, id DESC);

CREATE INDEX notification_unread ON public.notifications_notification USING btree (user_id) WHERE (read_at IS NULL);

CREATE INDEX notifications_delivery_user_id_70f8752d ON public.notifications_delivery USING btree (user_id);

CREATE INDEX notifications_delivery_webhook_id_e35814dd ON public.notifications_delivery USING btree (webhook_id);

CREATE INDEX notifications_notification_user_id_b5e8c0ff ON public.notifications_notification USING btree (user_id);

CREATE INDEX notifications_webhook_user_id_2f7cc929 ON public.notifications_webhook USING btree (user_id);

CREATE UNIQUE INDEX one_node_check_waits ON public.cluster_nodecheck USING btree (node_id) WHERE ((state)::text = 'WAITING'::text);

CREATE INDEX operations_alert_rule_id_e7cb8b41 ON public.operations_alert USING btree (rule_id);

CREATE INDEX operations_alertrule_name_ee5299ec_like ON public.operations_alertrule USING btree (name varchar_pattern_ops);

CREATE INDEX operations_alertrule_recipients_alertrule_id_c4a584f1 ON public.operations_alertrule_recipients USING btree (alertrule_id);

CREATE INDEX operations_alertrule_recipients_user_id_79c21021 ON public.operations_alertrule_recipients USING btree (user_id);

CREATE UNIQUE INDEX port_held_once ON public.jobs_portlease USING btree (node_id, port) WHERE (released_at IS NULL);

CREATE INDEX prefetch_open_on_node ON public.images_nodeprefetch USING btree (node_id) WHERE ((state)::text = ANY (ARRAY[('WAITING'::character varying)::text, ('PULLING'::character varying)::text]));

CREATE INDEX rank_change_by_job ON public.jobs_rankchange USING btree (job_id, index, at);

CREATE INDEX scheduling_change_at_3ff711cc ON public.scheduling_change USING btree (at);

CREATE INDEX scheduling_change_txid_0db183a6 ON public.scheduling_change USING btree (txid);

CREATE INDEX scheduling_vcuse_vc_id_f75540e8 ON public.scheduling_vcuse USING btree (vc_id);

CREATE INDEX simulation_by_owner ON public.simulations_simulation USING btree (owner_id, created_at DESC);

CREATE INDEX simulation_old ON public.simulations_simulation USING btree (finished_at);

CREATE UNIQUE INDEX simulation_one_active ON public.simulations_simulation USING btree (owner_id) WHERE ((state)::text = ANY (ARRAY[('QUEUED'::character varying)::text, ('RUNNING'::character varying)::text]));

CREATE UNIQUE INDEX simulation_one_running ON public.simulations_simulation USING btree (state) WHERE ((state)::text = 'RUNNING'::text);

CREATE INDEX simulations_simulation_vc_id_da318605 ON public.simulations_simulation USING btree (vc_id);

CREATE INDEX socialaccount_socialaccount_user_id_8146e70c ON public.socialaccount_socialaccount USING btree (user_id);

CREATE INDEX socialaccount_socialtoken_account_id_951f210e ON public.socialaccount_socialtoken USING btree (account_id);

CREATE INDEX socialaccount_socialtoken_app_id_636a42d7 ON public.socialaccount_socialtoken USING btree (app_id);

CREATE INDEX storage_dataset_owner_id_e7336690 ON public.storage_dataset USING btree (owner_id);

CREATE INDEX storage_dataset_storage_id_b7d8910f ON public.storage_dataset USING btree (storage_id);

CREATE INDEX storage_dataset_vc_id_c63d3432 ON public.storage_dataset USING btree (vc_id);

CREATE INDEX storage_storage_created_by_id_7c452e36 ON public.storage_storage USING btree (created_by_id);

CREATE INDEX storage_storage_managed_by_id_86e171df ON public.storage_storage USING btree (managed_by_id);

CREATE INDEX storage_storage_name_cd006956_like ON public.storage_storage USING btree (name varchar_pattern_ops);

CREATE INDEX storage_storagegrant_group_id_b8492443 ON public.storage_storagegrant USING btree (group_id);

CREATE INDEX storage_storagegrant_storage_id_f5fd0f1d ON public.storage_storagegrant USING btree (storage_id);

CREATE INDEX storage_storagegrant_vc_id_0211614c ON public.storage_storagegrant USING btree (vc_id);

CREATE INDEX task_history_oldest ON ONLY public.telemetry_taskhistory USING btree (at);

CREATE INDEX task_rollup_oldest ON ONLY public.telemetry_taskrollup USING btree (seconds, at);

CREATE INDEX telemetry_gpudays_at_idx ON ONLY public.telemetry_gpudays USING btree (at);

CREATE INDEX telemetry_gpudays_attempt_id_at_idx ON ONLY public.telemetry_gpudays USING btree (attempt_id, at);

CREATE INDEX telemetry_gpudays_default_at_idx ON public.telemetry_gpudays_default USING btree (at);

CREATE INDEX telemetry_gpudays_default_attempt_id_at_idx ON public.telemetry_gpudays_default USING btree (attempt_id, at);

CREATE INDEX telemetry_gpuhours_at_idx ON ONLY public.telemetry_gpuhours USING btree (at);

CREATE INDEX telemetry_gpuhours_attempt_id_at_idx ON ONLY public.telemetry_gpuhours USING btree (attempt_id, at);

CREATE INDEX telemetry_gpuhours_default_at_idx ON public.telemetry_gpuhours_default USING btree (at);

CREATE INDEX telemetry_gpuhours_default_attempt_id_at_idx ON public.telemetry_gpuhours_default USING btree (attempt_id, at);

CREATE INDEX telemetry_gpurollup_default_attempt_id_at_idx ON public.telemetry_gpurollup_default USING btree (attempt_id, at);

CREATE INDEX telemetry_gpurollup_default_seconds_at_idx ON public.telemetry_gpurollup_default USING btree (seconds, at);

CREATE INDEX telemetry_metriclog_job_id_abef9044 ON public.telemetry_metriclog USING btree (job_id);

CREATE INDEX telemetry_taskdays_at_idx ON ONLY public.telemetry_taskdays USING btree (at);

CREATE INDEX telemetry_taskdays_default_at_idx ON public.telemetry_taskdays_default USING btree (at);

CREATE INDEX telemetry_taskhours_at_idx ON ONLY public.telemetry_taskhours USING btree (at);

CREATE INDEX telemetry_taskhours_default_at_idx ON public.telemetry_taskhours_default USING btree (at);

CREATE INDEX telemetry_taskrollup_default_seconds_at_idx ON public.telemetry_taskrollup_default USING btree (seconds, at);

CREATE INDEX template_by_stars ON public.templates_template USING btree (stars DESC, id);

CREATE UNIQUE INDEX template_name_shipped ON public.templates_template USING btree (name) WHERE shipped;

CREATE INDEX template_newest ON public.templates_template USING btree (created_at DESC, id);

CREATE INDEX templates_template_owner_id_ccd15f61 ON public.templates_template USING btree (owner_id);

CREATE INDEX templates_template_vc_id_cbfd62c3 ON public.templates_template USING btree (vc_id);

CREATE INDEX templates_templatestar_user_id_09df8149 ON public.templates_templatestar USING btree (user_id);

CREATE INDEX tenancy_membership_user_id_69c4e8b6 ON public.tenancy_membership USING btree (user_id);

CREATE INDEX tenancy_membership_vc_id_600c34c0 ON public.tenancy_membership USING btree (vc_id);

CREATE INDEX tenancy_pinnedcell_name_573d16f5_like ON public.tenancy_pinnedcell USING btree (name varchar_pattern_ops);

CREATE INDEX tenancy_pinnedcell_vc_id_5bbeec33 ON public.tenancy_pinnedcell USING btree (vc_id);

CREATE INDEX tenancy_quota_vc_id_6d1ade1d ON public.tenancy_quota USING btree (vc_id);

CREATE INDEX tenancy_rolegrant_group_id_90a88c8b ON public.tenancy_rolegrant USING btree (group_id);

CREATE INDEX tenancy_rolegrant_user_id_cf999515 ON public.tenancy_rolegrant USING btree (user_id);

CREATE INDEX tenancy_rolegrant_vc_id_3460b92c ON public.tenancy_rolegrant USING btree (vc_id);

CREATE INDEX tenancy_serviceaccount_vc_id_4b9c64ee ON public.tenancy_serviceaccount USING btree (vc_id);

CREATE INDEX tenancy_vccell_vc_id_c611d8d3 ON public.tenancy_vccell USING btree (vc_id);

CREATE INDEX tenancy_vclimit_vc_id_0b0cdf82 ON public.tenancy_vclimit USING btree (vc_id);

CREATE INDEX tenancy_virtualcluster_name_eb5e12d5_like ON public.tenancy_virtualcluster USING btree (name varchar_pattern_ops);

CREATE UNIQUE INDEX unique_authenticator_type ON public.mfa_authenticator USING btree (user_id, type) WHERE ((type)::text = ANY (ARRAY[('totp'::character varying)::text, ('recovery_codes'::character varying)::text]));

CREATE UNIQUE INDEX unique_primary_email ON public.account_emailaddress USING btree (user_id, "primary") WHERE "primary";

CREATE UNIQUE INDEX unique_verified_email ON public.account_emailaddress USING btree (email) WHERE verified;

CREATE INDEX usage_by_day ON public.usage_usageday USING btree (day);

CREATE INDEX usage_by_user ON public.usage_usageday USING btree (user_id, day);

CREATE INDEX usage_by_vc ON public.usage_usageday USING btree (vc_id, day);

CREATE INDEX usage_merged ON public.usage_usageday USING btree (day) WHERE (job_id IS NULL);

CREATE INDEX usage_rollup_by_user ON public.usage_usagerollup USING btree (user_id, day);

CREATE INDEX usage_rollup_by_vc ON public.usage_usagerollup USING btree (vc_id, day);

CREATE INDEX usage_rollup_of_vcs ON public.usage_usagerollup USING btree (monthly, day) WHERE (user_id IS NULL);

CREATE INDEX user_metric_by_age ON public.telemetry_usermetric USING btree (at);

CREATE INDEX user_metric_by_job ON public.telemetry_usermetric USING btree (job_id, name);

ALTER INDEX public.audit_action ATTACH PARTITION public.audit_entry_default_action_id_idx;

ALTER INDEX public.audit_actor_id ATTACH PARTITION public.audit_entry_default_actor_id_id_idx;

ALTER INDEX public.audit_actor_name ATTACH PARTITION public.audit_entry_default_actor_name_id_idx;

ALTER INDEX public.audit_address ATTACH PARTITION public.audit_entry_default_address_id_idx;

ALTER INDEX public.audit_refused ATTACH PARTITION public.audit_entry_default_id_idx;

ALTER INDEX public.audit_entry_pkey ATTACH PARTITION public.audit_entry_default_pkey;

ALTER INDEX public.audit_target_type ATTACH PARTITION public.audit_entry_default_target_type_id_idx;

ALTER INDEX public.audit_target_name ATTACH PARTITION public.audit_entry_default_upper_idx;

ALTER INDEX public.audit_vc ATTACH PARTITION public.audit_entry_default_vc_id_id_idx;

ALTER INDEX public.audit_refused_vc ATTACH PARTITION public.audit_entry_default_vc_id_id_idx1;

ALTER INDEX public.gpu_history_oldest ATTACH PARTITION public.telemetry_gpudays_at_idx;

ALTER INDEX public.gpu_history_by_attempt ATTACH PARTITION public.telemetry_gpudays_attempt_id_at_idx;

ALTER INDEX public.telemetry_gpudays_at_idx ATTACH PARTITION public.telemetry_gpudays_default_at_idx;

ALTER INDEX public.telemetry_gpudays_attempt_id_at_idx ATTACH PARTITION public.telemetry_gpudays_default_attempt_id_at_idx;

ALTER INDEX public.telemetry_gpudays_device_id_at_attempt_id_seconds_key ATTACH PARTITION public.telemetry_gpudays_default_device_id_at_attempt_id_seconds_key;

ALTER INDEX public.gpu_history_once ATTACH PARTITION public.telemetry_gpudays_device_id_at_attempt_id_seconds_key;

ALTER INDEX public.gpu_history_oldest ATTACH PARTITION public.telemetry_gpuhours_at_idx;

ALTER INDEX public.gpu_history_by_attempt ATTACH PARTITION public.telemetry_gpuhours_attempt_id_at_idx;

ALTER INDEX public.telemetry_gpuhours_at_idx ATTACH PARTITION public.telemetry_gpuhours_default_at_idx;

ALTER INDEX public.telemetry_gpuhours_attempt_id_at_idx ATTACH PARTITION public.telemetry_gpuhours_default_attempt_id_at_idx;

ALTER INDEX public.telemetry_gpuhours_device_id_at_attempt_id_seconds_key ATTACH PARTITION public.telemetry_gpuhours_default_device_id_at_attempt_id_seconds_key;

ALTER INDEX public.gpu_history_once ATTACH PARTITION public.telemetry_gpuhours_device_id_at_attempt_id_seconds_key;

ALTER INDEX public.gpu_rollup_by_attempt ATTACH PARTITION public.telemetry_gpurollup_default_attempt_id_at_idx;

ALTER INDEX public.gpu_rollup_once ATTACH PARTITION public.telemetry_gpurollup_default_device_id_at_attempt_id_key;

ALTER INDEX public.gpu_rollup_oldest ATTACH PARTITION public.telemetry_gpurollup_default_seconds_at_idx;

ALTER INDEX public.task_history_oldest ATTACH PARTITION public.telemetry_taskdays_at_idx;

ALTER INDEX public.task_history_once ATTACH PARTITION public.telemetry_taskdays_attempt_id_at_seconds_key;

ALTER INDEX public.telemetry_taskdays_at_idx ATTACH PARTITION public.telemetry_taskdays_default_at_idx;

ALTER INDEX public.telemetry_taskdays_attempt_id_at_seconds_key ATTACH PARTITION public.telemetry_taskdays_default_attempt_id_at_seconds_key;

ALTER INDEX public.task_history_oldest ATTACH PARTITION public.telemetry_taskhours_at_idx;

ALTER INDEX public.task_history_once ATTACH PARTITION public.telemetry_taskhours_attempt_id_at_seconds_key;

ALTER INDEX public.telemetry_taskhours_at_idx ATTACH PARTITION public.telemetry_taskhours_default_at_idx;

ALTER INDEX public.telemetry_taskhours_attempt_id_at_seconds_key ATTACH PARTITION public.telemetry_taskhours_default_attempt_id_at_seconds_key;

ALTER INDEX public.task_rollup_once ATTACH PARTITION public.telemetry_taskrollup_default_attempt_id_at_key;

ALTER INDEX public.task_rollup_oldest ATTACH PARTITION public.telemetry_taskrollup_default_seconds_at_idx;

CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE ON public.audit_entry FOR EACH ROW EXECUTE FUNCTION public.audit_refuse_change();

CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON public.audit_entry FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuse_change();

CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON public.audit_entry_default FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuse_change();

CREATE TRIGGER scheduling_attempt_gone AFTER DELETE ON public.jobs_taskattempt REFERENCING OLD TABLE AS placed FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_placed();

CREATE TRIGGER scheduling_attempt_new AFTER INSERT ON public.jobs_taskattempt REFERENCING NEW TABLE AS placed FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_placed();

CREATE TRIGGER scheduling_attempt_released AFTER UPDATE ON public.jobs_taskattempt REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_released();

CREATE TRIGGER scheduling_budget_changed AFTER UPDATE ON public.usage_budget FOR EACH ROW WHEN (((old.used_up OR new.used_up) AND ((old.used_up IS DISTINCT FROM new.used_up) OR (old.gpu_hours IS DISTINCT FROM new.gpu_hours) OR (old.month IS DISTINCT FROM new.month)))) EXECUTE FUNCTION public.scheduling_log_budget();

CREATE TRIGGER scheduling_budget_gone AFTER DELETE ON public.usage_budget FOR EACH ROW WHEN (old.used_up) EXECUTE FUNCTION public.scheduling_log_budget();

CREATE TRIGGER scheduling_budget_new AFTER INSERT ON public.usage_budget FOR EACH ROW WHEN (new.used_up) EXECUTE FUNCTION public.scheduling_log_budget();

CREATE TRIGGER scheduling_cell AFTER INSERT OR DELETE OR UPDATE ON public.tenancy_vccell FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_device_changed AFTER UPDATE OF node_id, model, index, health ON public.cluster_device FOR EACH ROW WHEN (((old.node_id IS DISTINCT FROM new.node_id) OR ((old.model)::text IS DISTINCT FROM (new.model)::text) OR (old.index IS DISTINCT FROM new.index) OR ((old.health)::text IS DISTINCT FROM (new.health)::text))) EXECUTE FUNCTION public.scheduling_log_device();

CREATE TRIGGER scheduling_device_gone AFTER DELETE ON public.cluster_device FOR EACH ROW EXECUTE FUNCTION public.scheduling_log_device();

CREATE TRIGGER scheduling_device_new AFTER INSERT ON public.cluster_device REFERENCING NEW TABLE AS appeared FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_new_devices();

CREATE TRIGGER scheduling_emptied AFTER TRUNCATE ON public.jobs_job FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('all');

CREATE TRIGGER scheduling_job_changed AFTER UPDATE OF state, attempt, placed_at, not_before, unplaced, priority, preemptible, lazy_preemption, duration_s, stop_requested_at, preempting_at, downgraded, exit_reason ON public.jobs_job FOR EACH ROW WHEN (((old.attempt IS DISTINCT FROM new.attempt) OR (old.placed_at IS DISTINCT FROM new.placed_at) OR (old.not_before IS DISTINCT FROM new.not_before) OR (old.unplaced IS DISTINCT FROM new.unplaced) OR (old.priority IS DISTINCT FROM new.priority) OR (old.preemptible IS DISTINCT FROM new.preemptible) OR (old.lazy_preemption IS DISTINCT FROM new.lazy_preemption) OR (old.duration_s IS DISTINCT FROM new.duration_s) OR (old.stop_requested_at IS DISTINCT FROM new.stop_requested_at) OR (old.preempting_at IS DISTINCT FROM new.preempting_at) OR (old.downgraded IS DISTINCT FROM new.downgraded) OR ((old.exit_reason IS NULL) IS DISTINCT FROM (new.exit_reason IS NULL)) OR ((((old.state)::text = 'WAITING'::text) AND (old.placed_at IS NULL)) IS DISTINCT FROM (((new.state)::text = 'WAITING'::text) AND (new.placed_at IS NULL))))) EXECUTE FUNCTION public.scheduling_log_row('gang');

CREATE TRIGGER scheduling_job_new AFTER INSERT OR DELETE ON public.jobs_job FOR EACH ROW EXECUTE FUNCTION public.scheduling_log_row('gang');

CREATE TRIGGER scheduling_layout AFTER INSERT OR DELETE OR UPDATE OF text ON public.cluster_celllayout FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_node_changed AFTER UPDATE OF name, state, cordoned, labels, topology, cpu_millis, memory_mb ON public.cluster_node FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR ((old.state)::text IS DISTINCT FROM (new.state)::text) OR (old.cordoned IS DISTINCT FROM new.cordoned) OR (old.labels IS DISTINCT FROM new.labels) OR (old.topology IS DISTINCT FROM new.topology) OR (old.cpu_millis IS DISTINCT FROM new.cpu_millis) OR (old.memory_mb IS DISTINCT FROM new.memory_mb))) EXECUTE FUNCTION public.scheduling_log_row('node');

CREATE TRIGGER scheduling_node_draining AFTER UPDATE OF draining ON public.cluster_node FOR EACH ROW WHEN (((old.draining IS DISTINCT FROM new.draining) AND (old.cordoned = new.cordoned))) EXECUTE FUNCTION public.scheduling_log_row('node');

CREATE TRIGGER scheduling_node_maintenance AFTER UPDATE OF maintenance_from, maintenance_until ON public.cluster_node FOR EACH ROW WHEN (((old.maintenance_from IS DISTINCT FROM new.maintenance_from) OR (old.maintenance_until IS DISTINCT FROM new.maintenance_until))) EXECUTE FUNCTION public.scheduling_log_row('node');

CREATE TRIGGER scheduling_node_new AFTER INSERT OR DELETE ON public.cluster_node FOR EACH ROW EXECUTE FUNCTION public.scheduling_log_row('node');

CREATE TRIGGER scheduling_pin AFTER INSERT OR DELETE OR UPDATE ON public.tenancy_pinnedcell FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_quota AFTER INSERT OR DELETE OR UPDATE ON public.tenancy_quota FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_reserved AFTER INSERT OR DELETE OR UPDATE ON public.scheduling_reservation FOR EACH ROW EXECUTE FUNCTION public.scheduling_log_reservation();

CREATE TRIGGER scheduling_service AFTER UPDATE ON public.jobs_taskattempt REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_add_service();

CREATE TRIGGER scheduling_user_limit_changed AFTER UPDATE ON public.tenancy_vclimit FOR EACH ROW WHEN ((((new.name)::text = ANY (ARRAY[('gpus_per_user'::character varying)::text, ('running_jobs_per_user'::character varying)::text])) AND (old.value IS DISTINCT FROM new.value))) EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_user_limit_gone AFTER DELETE ON public.tenancy_vclimit FOR EACH ROW WHEN (((old.name)::text = ANY (ARRAY[('gpus_per_user'::character varying)::text, ('running_jobs_per_user'::character varying)::text]))) EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_user_limit_new AFTER INSERT ON public.tenancy_vclimit FOR EACH ROW WHEN (((new.name)::text = ANY (ARRAY[('gpus_per_user'::character varying)::text, ('running_jobs_per_user'::character varying)::text]))) EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_vc AFTER INSERT OR DELETE ON public.tenancy_virtualcluster FOR EACH STATEMENT EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_vc_policy AFTER UPDATE OF policy ON public.tenancy_virtualcluster FOR EACH ROW WHEN ((old.policy IS DISTINCT FROM new.policy)) EXECUTE FUNCTION public.scheduling_log_statement('inventory');

CREATE TRIGGER scheduling_vc_renamed AFTER UPDATE OF name ON public.tenancy_virtualcluster FOR EACH ROW WHEN (((old.name)::text IS DISTINCT FROM (new.name)::text)) EXECUTE FUNCTION public.scheduling_log_statement('all');

CREATE TRIGGER usage_lock BEFORE DELETE ON public.usage_jobusage FOR EACH STATEMENT EXECUTE FUNCTION public.usage_lock();

CREATE TRIGGER usage_lock BEFORE INSERT OR DELETE OR UPDATE ON public.usage_usageday FOR EACH STATEMENT EXECUTE FUNCTION public.usage_lock();

CREATE TRIGGER usage_lock BEFORE DELETE ON public.usage_usagerollup FOR EACH STATEMENT EXECUTE FUNCTION public.usage_lock();

CREATE TRIGGER usage_roll_up_delete AFTER DELETE ON public.usage_usageday REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.usage_roll_up_delete();

CREATE TRIGGER usage_roll_up_insert AFTER INSERT ON public.usage_usageday REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.usage_roll_up_insert();

CREATE TRIGGER usage_roll_up_update AFTER UPDATE ON public.usage_usageday REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.usage_roll_up_update();

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_2c513194_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirm_email_address_id_5b7f8c58_fk_account_e FOREIGN KEY (email_address_id) REFERENCES public.account_emailaddress(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_accountmail
    ADD CONSTRAINT accounts_accountmail_user_id_900eda0b_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_user_id_bbee13e0_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_browsersession
    ADD CONSTRAINT accounts_browsersession_user_id_b0cb11d3_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_devicelogin
    ADD CONSTRAINT accounts_devicelogin_user_id_6bc6a898_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_groupmember
    ADD CONSTRAINT accounts_groupmember_group_id_590adbea_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_groupmember
    ADD CONSTRAINT accounts_groupmember_user_id_df97a2a7_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_sshkey
    ADD CONSTRAINT accounts_sshkey_user_id_e6bcd17d_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_group_id_bd11a704_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_52b62117_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_permission_id_113bb443_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_user_id_e4f0a161_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_announcementdismissal
    ADD CONSTRAINT cluster_announcement_announcement_id_0594373d_fk_cluster_a FOREIGN KEY (announcement_id) REFERENCES public.cluster_announcement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_announcement
    ADD CONSTRAINT cluster_announcement_created_by_id_f1278dc8_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_announcementdismissal
    ADD CONSTRAINT cluster_announcement_user_id_1e2016b2_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_device
    ADD CONSTRAINT cluster_device_node_id_9e72d7dc_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_jointoken
    ADD CONSTRAINT cluster_jointoken_created_by_id_0c9b71d6_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_maintenancewindow
    ADD CONSTRAINT cluster_maintenancew_created_by_id_de35a1b7_fk_accounts_ FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_maintenancewindow
    ADD CONSTRAINT cluster_maintenancewindow_node_id_3dd70472_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_nodecheck
    ADD CONSTRAINT cluster_nodecheck_node_id_750aaacb_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cluster_nodefault
    ADD CONSTRAINT cluster_nodefault_node_id_e32441e8_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.files_archive
    ADD CONSTRAINT files_archive_owner_id_1156b396_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_image
    ADD CONSTRAINT images_image_created_by_id_176f17ff_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_image
    ADD CONSTRAINT images_image_managed_by_id_d652fc28_fk_tenancy_v FOREIGN KEY (managed_by_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_image_virtual_clusters
    ADD CONSTRAINT images_image_virtual_image_id_2f378d99_fk_images_im FOREIGN KEY (image_id) REFERENCES public.images_image(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_image_virtual_clusters
    ADD CONSTRAINT images_image_virtual_virtualcluster_id_135d9501_fk_tenancy_v FOREIGN KEY (virtualcluster_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_imagerule
    ADD CONSTRAINT images_imagerule_vc_id_e7ac2382_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_nodeimage
    ADD CONSTRAINT images_nodeimage_node_id_99fe5cd9_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_nodeprefetch
    ADD CONSTRAINT images_nodeprefetch_node_id_b4bfa0f5_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_nodeprefetch
    ADD CONSTRAINT images_nodeprefetch_prefetch_id_8d883572_fk_images_prefetch_id FOREIGN KEY (prefetch_id) REFERENCES public.images_prefetch(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_prefetch
    ADD CONSTRAINT images_prefetch_created_by_id_0ddd9125_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_prefetch
    ADD CONSTRAINT images_prefetch_vc_id_8da1ab8a_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_registrycredential
    ADD CONSTRAINT images_registrycrede_vc_id_59aac7c3_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.images_registrycredential
    ADD CONSTRAINT images_registrycredential_user_id_cfd2e53e_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.interactive_app
    ADD CONSTRAINT interactive_app_job_id_b3da9185_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsessi_login_id_ca72e120_fk_django_se FOREIGN KEY (login_id) REFERENCES public.django_session(session_key) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsession_app_id_529c3eea_fk_interactive_app_id FOREIGN KEY (app_id) REFERENCES public.interactive_app(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.interactive_appsession
    ADD CONSTRAINT interactive_appsession_user_id_319beab3_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_archivedjob
    ADD CONSTRAINT jobs_archivedjob_owner_id_e09c9173_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_archivedjob
    ADD CONSTRAINT jobs_archivedjob_vc_id_24e33c13_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_gangnetwork
    ADD CONSTRAINT jobs_gangnetwork_job_id_ab192e6f_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_attempt_id_895d3cb9_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_created_by_id_fb13e415_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_job_id_8db251fe_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_node_id_c464a6db_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_imagesave
    ADD CONSTRAINT jobs_imagesave_vc_id_0d1b08ef_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_owner_id_4c884775_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_parent_id_675bb714_fk_jobs_job_id FOREIGN KEY (parent_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_vc_id_d82001f2_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobapitoken
    ADD CONSTRAINT jobs_jobapitoken_job_id_6e27695f_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobattempt
    ADD CONSTRAINT jobs_jobattempt_job_id_05797094_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobdependency
    ADD CONSTRAINT jobs_jobdependency_job_id_ea51aedf_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobdependency
    ADD CONSTRAINT jobs_jobdependency_upstream_id_3166a683_fk_jobs_job_id FOREIGN KEY (upstream_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobfiles
    ADD CONSTRAINT jobs_jobfiles_archive_id_fbb41dfe_fk_files_archive_id FOREIGN KEY (archive_id) REFERENCES public.files_archive(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobfiles
    ADD CONSTRAINT jobs_jobfiles_job_id_45cb0ee1_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobsecrets
    ADD CONSTRAINT jobs_jobsecrets_job_id_23c4768e_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT jobs_jobshare_group_id_0ab465f1_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT jobs_jobshare_job_id_f39dfe10_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT jobs_jobshare_shared_by_id_bd2dc9f7_fk_accounts_user_id FOREIGN KEY (shared_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobshare
    ADD CONSTRAINT jobs_jobshare_user_id_f6a1dc8e_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobstorage
    ADD CONSTRAINT jobs_jobstorage_dataset_id_03040468_fk_storage_dataset_id FOREIGN KEY (dataset_id) REFERENCES public.storage_dataset(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobstorage
    ADD CONSTRAINT jobs_jobstorage_job_id_f8a18fb2_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobstorage
    ADD CONSTRAINT jobs_jobstorage_storage_id_ac16de26_fk_storage_storage_id FOREIGN KEY (storage_id) REFERENCES public.storage_storage(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_lease
    ADD CONSTRAINT jobs_lease_attempt_id_2916cf2d_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_lease
    ADD CONSTRAINT jobs_lease_device_id_a3854b4a_fk_cluster_device_uuid FOREIGN KEY (device_id) REFERENCES public.cluster_device(uuid) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_portlease
    ADD CONSTRAINT jobs_portlease_attempt_id_a0bb0ff6_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_portlease
    ADD CONSTRAINT jobs_portlease_node_id_91159697_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_rankchange
    ADD CONSTRAINT jobs_rankchange_job_id_94be6ad2_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_savedview
    ADD CONSTRAINT jobs_savedview_user_id_1826d8f5_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_task
    ADD CONSTRAINT jobs_task_job_id_6fefee23_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_task
    ADD CONSTRAINT jobs_task_role_id_98c6c459_fk_jobs_taskrole_id FOREIGN KEY (role_id) REFERENCES public.jobs_taskrole(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT jobs_taskattempt_job_id_04695bd7_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT jobs_taskattempt_node_id_1af5ac4f_fk_cluster_node_id FOREIGN KEY (node_id) REFERENCES public.cluster_node(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT jobs_taskattempt_role_id_a26b5e66_fk_jobs_taskrole_id FOREIGN KEY (role_id) REFERENCES public.jobs_taskrole(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_taskattempt
    ADD CONSTRAINT jobs_taskattempt_task_id_671400e5_fk_jobs_task_id FOREIGN KEY (task_id) REFERENCES public.jobs_task(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_taskrole
    ADD CONSTRAINT jobs_taskrole_job_id_8c1a9071_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_user_id_0c3a50c0_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notifications_delivery
    ADD CONSTRAINT notifications_delive_webhook_id_e35814dd_fk_notificat FOREIGN KEY (webhook_id) REFERENCES public.notifications_webhook(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notifications_delivery
    ADD CONSTRAINT notifications_delivery_user_id_70f8752d_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notifications_notification
    ADD CONSTRAINT notifications_notification_user_id_b5e8c0ff_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notifications_preferences
    ADD CONSTRAINT notifications_preferences_user_id_fdd9e2dd_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notifications_webhook
    ADD CONSTRAINT notifications_webhook_user_id_2f7cc929_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.operations_alert
    ADD CONSTRAINT operations_alert_rule_id_e7cb8b41_fk_operations_alertrule_id FOREIGN KEY (rule_id) REFERENCES public.operations_alertrule(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.operations_alertrule_recipients
    ADD CONSTRAINT operations_alertrule_alertrule_id_c4a584f1_fk_operation FOREIGN KEY (alertrule_id) REFERENCES public.operations_alertrule(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.operations_alertrule_recipients
    ADD CONSTRAINT operations_alertrule_user_id_79c21021_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_attainedservice
    ADD CONSTRAINT scheduling_attainedservice_job_id_32ef44e0_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_expectedstart
    ADD CONSTRAINT scheduling_expectedstart_job_id_89fc5787_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_preemptioncooldown
    ADD CONSTRAINT scheduling_preemptioncooldown_job_id_88d8d09a_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_reservation
    ADD CONSTRAINT scheduling_reservation_job_id_99cb550b_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_reservedstart
    ADD CONSTRAINT scheduling_reservedstart_job_id_e26d05a4_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_vctimeline
    ADD CONSTRAINT scheduling_vctimelin_vc_id_4bd3c2c7_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.scheduling_vcuse
    ADD CONSTRAINT scheduling_vcuse_vc_id_f75540e8_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.simulations_simulation
    ADD CONSTRAINT simulations_simulati_vc_id_da318605_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.simulations_simulation
    ADD CONSTRAINT simulations_simulation_owner_id_a8ebc6d9_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_account_id_951f210e_fk_socialacc FOREIGN KEY (account_id) REFERENCES public.socialaccount_socialaccount(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_app_id_636a42d7_fk_socialacc FOREIGN KEY (app_id) REFERENCES public.socialaccount_socialapp(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_social_user_id_8146e70c_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_dataset
    ADD CONSTRAINT storage_dataset_owner_id_e7336690_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_dataset
    ADD CONSTRAINT storage_dataset_storage_id_b7d8910f_fk_storage_storage_id FOREIGN KEY (storage_id) REFERENCES public.storage_storage(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_dataset
    ADD CONSTRAINT storage_dataset_vc_id_c63d3432_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_storage
    ADD CONSTRAINT storage_storage_created_by_id_7c452e36_fk_accounts_user_id FOREIGN KEY (created_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_storage
    ADD CONSTRAINT storage_storage_managed_by_id_86e171df_fk_tenancy_v FOREIGN KEY (managed_by_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_storagegrant_group_id_b8492443_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_storagegrant_storage_id_f5fd0f1d_fk_storage_storage_id FOREIGN KEY (storage_id) REFERENCES public.storage_storage(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.storage_storagegrant
    ADD CONSTRAINT storage_storagegrant_vc_id_0211614c_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_gpuhistory
    ADD CONSTRAINT telemetry_gpuhistory_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_gpuhistory
    ADD CONSTRAINT telemetry_gpuhistory_device_id_fkey FOREIGN KEY (device_id) REFERENCES public.cluster_device(uuid) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_gpurollup
    ADD CONSTRAINT telemetry_gpurollup_attempt_id_37630b0c_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_gpurollup
    ADD CONSTRAINT telemetry_gpurollup_device_id_282baee2_fk_cluster_device_uuid FOREIGN KEY (device_id) REFERENCES public.cluster_device(uuid) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_jobuse
    ADD CONSTRAINT telemetry_jobuse_job_id_4202fb3f_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_logchunk
    ADD CONSTRAINT telemetry_logchunk_attempt_id_fd89387e_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_logchunk
    ADD CONSTRAINT telemetry_logchunk_job_id_4cbb9f81_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_metriclog
    ADD CONSTRAINT telemetry_metriclog_attempt_id_012cedb4_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_metriclog
    ADD CONSTRAINT telemetry_metriclog_job_id_abef9044_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_taskhistory
    ADD CONSTRAINT telemetry_taskhistory_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE public.telemetry_taskrollup
    ADD CONSTRAINT telemetry_taskrollup_attempt_id_bc11dbe9_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_usermetric
    ADD CONSTRAINT telemetry_usermetric_attempt_id_84b4419d_fk_jobs_taskattempt_id FOREIGN KEY (attempt_id) REFERENCES public.jobs_taskattempt(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.telemetry_usermetric
    ADD CONSTRAINT telemetry_usermetric_job_id_d8059d7b_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.templates_template
    ADD CONSTRAINT templates_template_owner_id_ccd15f61_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.templates_template
    ADD CONSTRAINT templates_template_vc_id_cbfd62c3_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.templates_templatestar
    ADD CONSTRAINT templates_templatest_template_id_18f4bb48_fk_templates FOREIGN KEY (template_id) REFERENCES public.templates_template(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.templates_templatestar
    ADD CONSTRAINT templates_templatestar_user_id_09df8149_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_membership
    ADD CONSTRAINT tenancy_membership_user_id_69c4e8b6_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_membership
    ADD CONSTRAINT tenancy_membership_vc_id_600c34c0_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_pinnedcell
    ADD CONSTRAINT tenancy_pinnedcell_vc_id_5bbeec33_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_quota
    ADD CONSTRAINT tenancy_quota_vc_id_6d1ade1d_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT tenancy_rolegrant_group_id_90a88c8b_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT tenancy_rolegrant_user_id_cf999515_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_rolegrant
    ADD CONSTRAINT tenancy_rolegrant_vc_id_3460b92c_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_serviceaccount
    ADD CONSTRAINT tenancy_serviceaccou_vc_id_4b9c64ee_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_serviceaccount
    ADD CONSTRAINT tenancy_serviceaccount_user_id_0397ae36_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_vccell
    ADD CONSTRAINT tenancy_vccell_vc_id_c611d8d3_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tenancy_vclimit
    ADD CONSTRAINT tenancy_vclimit_vc_id_0b0cdf82_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_budget
    ADD CONSTRAINT usage_budget_vc_id_25908e78_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_fairnessmeasure
    ADD CONSTRAINT usage_fairnessmeasur_vc_id_ed6f8529_fk_tenancy_v FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_jobusage
    ADD CONSTRAINT usage_jobusage_job_id_2610001b_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_jobusage
    ADD CONSTRAINT usage_jobusage_user_id_bbc44a6d_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_jobusage
    ADD CONSTRAINT usage_jobusage_vc_id_28d99fd9_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_usageday
    ADD CONSTRAINT usage_usageday_job_id_3c014283_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_usageday
    ADD CONSTRAINT usage_usageday_user_id_051f2a32_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_usageday
    ADD CONSTRAINT usage_usageday_vc_id_d702d2a8_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_usagerollup
    ADD CONSTRAINT usage_usagerollup_user_id_528fa50f_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usage_usagerollup
    ADD CONSTRAINT usage_usagerollup_vc_id_b0b2e561_fk_tenancy_virtualcluster_id FOREIGN KEY (vc_id) REFERENCES public.tenancy_virtualcluster(id) DEFERRABLE INITIALLY DEFERRED;
