--
-- PostgreSQL database dump
--

\restrict zI6lb47tG46QA96lsa4SU1PQIO09yRaaFu8kbttVRstU75ld9JtUXD8DylcbXAo

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: alembic_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: block; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.block (
    block_id integer NOT NULL,
    sweep_id text NOT NULL,
    key text NOT NULL,
    merged_ranges bigint NOT NULL,
    total_bytes bigint NOT NULL,
    direction text NOT NULL,
    host_runs bigint,
    alignment integer,
    pitch bigint,
    colocation text NOT NULL,
    period_s double precision,
    decode text,
    seed bigint NOT NULL,
    seconds double precision NOT NULL,
    flags text NOT NULL,
    sm_clock_hz bigint,
    link_generation integer,
    link_width integer,
    temperature_c integer,
    throttle_reasons text NOT NULL,
    telemetry_note text NOT NULL
);


--
-- Name: block_block_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.block_block_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: block_block_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.block_block_id_seq OWNED BY public.block.block_id;


--
-- Name: board; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.board (
    uuid text NOT NULL,
    class_id text NOT NULL,
    host text NOT NULL,
    seen_at text NOT NULL
);


--
-- Name: cell; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.cell (
    cell_id integer NOT NULL,
    block_id integer NOT NULL,
    "position" integer NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    plan_key text NOT NULL,
    plan text NOT NULL,
    status text NOT NULL,
    verified integer NOT NULL,
    detail text NOT NULL,
    CONSTRAINT ck_cell_verified CHECK ((verified = ANY (ARRAY[0, 1])))
);


--
-- Name: cell_cell_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.cell_cell_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: cell_cell_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.cell_cell_id_seq OWNED BY public.cell.cell_id;


--
-- Name: device; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.device (
    class_id text NOT NULL,
    family_id text NOT NULL,
    simulated integer NOT NULL,
    name text NOT NULL,
    identity text NOT NULL,
    CONSTRAINT ck_device_simulated CHECK ((simulated = ANY (ARRAY[0, 1])))
);


--
-- Name: evidence; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.evidence (
    evidence_id integer NOT NULL,
    profile_id text NOT NULL,
    cell_id integer,
    kind text NOT NULL,
    recorded_at text NOT NULL,
    verdict text NOT NULL,
    detail text NOT NULL,
    CONSTRAINT ck_evidence_cell CHECK (((kind = 'cell'::text) = (cell_id IS NOT NULL)))
);


--
-- Name: evidence_evidence_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.evidence_evidence_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: evidence_evidence_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.evidence_evidence_id_seq OWNED BY public.evidence.evidence_id;


--
-- Name: fit; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.fit (
    fit_id integer NOT NULL,
    profile_id text NOT NULL,
    family text NOT NULL,
    direction text NOT NULL,
    colocation text NOT NULL,
    model text NOT NULL,
    parameters text NOT NULL,
    residual double precision,
    reason text NOT NULL,
    CONSTRAINT ck_fit_residual CHECK (((residual IS NULL) = (reason <> ''::text)))
);


--
-- Name: fit_fit_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.fit_fit_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: fit_fit_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.fit_fit_id_seq OWNED BY public.fit.fit_id;


--
-- Name: measurement; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.measurement (
    measurement_id integer NOT NULL,
    cell_id integer NOT NULL,
    metric text NOT NULL,
    count integer NOT NULL,
    samples bytea NOT NULL,
    status text NOT NULL,
    flags text NOT NULL,
    CONSTRAINT ck_measurement_count CHECK ((length(samples) = (8 * count)))
);


--
-- Name: measurement_measurement_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.measurement_measurement_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: measurement_measurement_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.measurement_measurement_id_seq OWNED BY public.measurement.measurement_id;


--
-- Name: profile; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.profile (
    profile_id text NOT NULL,
    sweep_id text NOT NULL,
    state text NOT NULL,
    reasons text NOT NULL,
    simulated integer NOT NULL,
    board_uuid text NOT NULL,
    class_id text NOT NULL,
    family_id text NOT NULL,
    facts text NOT NULL,
    created_at text NOT NULL,
    compiled bytea NOT NULL,
    digest text NOT NULL,
    kernel_digest text NOT NULL,
    method_version integer NOT NULL,
    CONSTRAINT ck_profile_simulated CHECK ((simulated = ANY (ARRAY[0, 1])))
);


--
-- Name: sweep; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sweep (
    sweep_id text NOT NULL,
    board_uuid text NOT NULL,
    class_id text NOT NULL,
    facts text NOT NULL,
    preset text NOT NULL,
    seed bigint NOT NULL,
    request text NOT NULL,
    method_version integer NOT NULL,
    kernel_digest text NOT NULL,
    environment text NOT NULL,
    planned_blocks integer NOT NULL,
    state text NOT NULL,
    reasons text NOT NULL,
    started_at text NOT NULL,
    seconds double precision NOT NULL,
    pid integer,
    host text,
    process_token text,
    seen_at text NOT NULL
);


--
-- Name: block block_id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.block ALTER COLUMN block_id SET DEFAULT nextval('public.block_block_id_seq'::regclass);


--
-- Name: cell cell_id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell ALTER COLUMN cell_id SET DEFAULT nextval('public.cell_cell_id_seq'::regclass);


--
-- Name: evidence evidence_id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.evidence ALTER COLUMN evidence_id SET DEFAULT nextval('public.evidence_evidence_id_seq'::regclass);


--
-- Name: fit fit_id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.fit ALTER COLUMN fit_id SET DEFAULT nextval('public.fit_fit_id_seq'::regclass);


--
-- Name: measurement measurement_id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.measurement ALTER COLUMN measurement_id SET DEFAULT nextval('public.measurement_measurement_id_seq'::regclass);


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.alembic_version VALUES ('0001');


--
-- Data for Name: block; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.block VALUES (1, 'aa11', 'b1', 16384, 1099511627776, 'both', 12, 16, 8192, 'idle', NULL, NULL, 4611686018427387904, 1.5, '["throttled","slow-link"]', 1980000000, 5, 16, 54, '["sw-power-cap"]', '');
INSERT INTO public.block VALUES (2, 'aa11', 's1', 16384, 1099511627776, 'both', 12, 16, 8192, 'time-sliced', 0.05, 'builtin:llama-8b', 4611686018427387904, 1.5, '[]', NULL, NULL, NULL, NULL, '[]', 'no NVML here');
INSERT INTO public.block VALUES (3, 'aa11', 'none', 16384, 1099511627776, 'both', 12, 16, 8192, 'idle', NULL, NULL, 4611686018427387904, 1.5, '["throttled","slow-link"]', 1980000000, 5, 16, 54, '["sw-power-cap"]', '');


--
-- Data for Name: board; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.board VALUES ('GPU-11111111-2222-3333-4444-555555555555', '95c25bd72d6bb89a', 'lab-7', '2026-11-30T12:00:00.000000+00:00');
INSERT INTO public.board VALUES ('sim:h200', 'sim-9c1567b9703b464b', '', '2026-11-30T12:00:00.250000+00:00');


--
-- Data for Name: cell; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.cell VALUES (1, 1, 0, 'kernel', 'plan', 'load kernel/warp grid=2 threads=1024 prio=-5 | save direct', '{"fused":false,"load":{"backend":"kernel","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":2,"stream_priority":-5,"threads":1024,"variant":"warp"},"save":{"backend":"direct","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":null,"stream_priority":0,"threads":null,"variant":null}}', 'ok', 1, '');
INSERT INTO public.cell VALUES (2, 1, 1, 'dead', 'plan', 'load kernel/warp grid=2 threads=1024 prio=-5 | save direct', '{"fused":false,"load":{"backend":"kernel","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":2,"stream_priority":-5,"threads":1024,"variant":"warp"},"save":{"backend":"direct","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":null,"stream_priority":0,"threads":null,"variant":null}}', 'crashed', 0, 'signal 9');
INSERT INTO public.cell VALUES (3, 1, 2, 'ceiling', 'ceiling', 'direct', '{"backend":"direct","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":null,"stream_priority":0,"threads":null,"variant":null}', 'ok', 1, '');
INSERT INTO public.cell VALUES (4, 2, 0, 'kernel', 'plan', 'load kernel/warp grid=2 threads=1024 prio=-5 | save direct', '{"fused":false,"load":{"backend":"kernel","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":2,"stream_priority":-5,"threads":1024,"variant":"warp"},"save":{"backend":"direct","backpressure":true,"chunk_bytes":null,"chunk_descriptors":null,"completion":"poll","max_grid_blocks":null,"stream_priority":0,"threads":null,"variant":null}}', 'ok', 1, '');


--
-- Data for Name: device; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.device VALUES ('95c25bd72d6bb89a', '10de:2335@9.0', 0, 'NVIDIA H200', '{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"memory_gib":140,"mig_slice":"","numa_distance":null,"pci_device_id":"10de:2335","pci_subsystem_id":null,"sm_count":132}');
INSERT INTO public.device VALUES ('9c1567b9703b464b', '10de:2335@9.0', 0, 'NVIDIA H200', '{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132}');
INSERT INTO public.device VALUES ('sim-9c1567b9703b464b', 'sim-10de:2335@9.0', 1, 'NVIDIA H200 (simulated)', '{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132}');


--
-- Data for Name: evidence; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.evidence VALUES (1, 'ff01', 1, 'cell', '2026-11-30T12:01:00.000000+00:00', '', '');
INSERT INTO public.evidence VALUES (2, 'ff01', 4, 'cell', '2026-11-30T12:01:00.000000+00:00', '', '');
INSERT INTO public.evidence VALUES (3, 'ff02', 1, 'cell', '2026-11-30T12:01:00.000000+00:00', '', '');
INSERT INTO public.evidence VALUES (4, 'ff02', 4, 'cell', '2026-11-30T12:01:00.000000+00:00', '', '');
INSERT INTO public.evidence VALUES (5, 'ff01', NULL, 'canary', '2026-11-30T12:00:00.000000+00:00', 'holds', '{}');


--
-- Data for Name: fit; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.fit VALUES (1, 'ff01', 'kernel/warp', 'h2d', 'idle', 'saturating', '{"a0":1e-05,"bandwidth":55000000000.0}', 0.03, '');
INSERT INTO public.fit VALUES (2, 'ff01', 'direct', 'd2h', 'idle', 'linear', '{}', NULL, '3 points are too few');
INSERT INTO public.fit VALUES (3, 'ff02', 'kernel/warp', 'h2d', 'idle', 'saturating', '{"a0":1e-05,"bandwidth":55000000000.0}', 0.03, '');
INSERT INTO public.fit VALUES (4, 'ff02', 'direct', 'd2h', 'idle', 'linear', '{}', NULL, '3 points are too few');


--
-- Data for Name: measurement; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.measurement VALUES (1, 1, 'transfer', 3, '\xfca9f1d24d62503f2f6ea301bc05523f000000000000d03f', 'ok', '["outliers"]');
INSERT INTO public.measurement VALUES (2, 1, 'prepare', 1, '\x8dedb5a0f7c6b03e', 'too-few', '[]');
INSERT INTO public.measurement VALUES (3, 3, 'transfer', 3, '\xfca9f1d24d62503f2f6ea301bc05523f000000000000d03f', 'ok', '["outliers"]');
INSERT INTO public.measurement VALUES (4, 3, 'prepare', 1, '\x8dedb5a0f7c6b03e', 'too-few', '[]');
INSERT INTO public.measurement VALUES (5, 4, 'transfer', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (6, 4, 'prepare', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (7, 4, 'submit', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (8, 4, 'device', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (9, 4, 'host-cpu', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (10, 4, 'sm', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (11, 4, 'span', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (12, 4, 'moving', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (13, 4, 'step', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (14, 4, 'step-end', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (15, 4, 'baseline-step', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (16, 4, 'stall', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (17, 4, 'extra', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (18, 4, 'completion', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (19, 4, 'burst-period', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');
INSERT INTO public.measurement VALUES (20, 4, 'missed', 2, '\x7b14ae47e17a843f7b14ae47e17a943f', 'ok', '[]');


--
-- Data for Name: profile; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.profile VALUES ('ff01', 'aa11', 'published', '[]', 0, 'GPU-11111111-2222-3333-4444-555555555555', '95c25bd72d6bb89a', '10de:2335@9.0', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":null,"pci_device_id":"10de:2335","pci_subsystem_id":null,"sm_count":132},"provenance":{"host":"lab-7","max_sm_clock_hz":1980000000,"name":"NVIDIA H200"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"GPU-11111111-2222-3333-4444-555555555555"}', '2026-11-30T12:01:00.000000+00:00', '\x007461626c6573ff', '3efee2e7bc521d455fd9e36d6aded8ed33a12103d5a0f6ec10fcb46187c6c5c8', 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', 1);
INSERT INTO public.profile VALUES ('ff02', 'aa11', 'draft', '["throttled","ümläut → %s"]', 0, 'GPU-11111111-2222-3333-4444-555555555555', '95c25bd72d6bb89a', '10de:2335@9.0', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":null,"pci_device_id":"10de:2335","pci_subsystem_id":null,"sm_count":132},"provenance":{"host":"lab-7","max_sm_clock_hz":1980000000,"name":"NVIDIA H200"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"GPU-11111111-2222-3333-4444-555555555555"}', '2026-11-30T12:01:00.000000+00:00', '\x007461626c6573ff', '3efee2e7bc521d455fd9e36d6aded8ed33a12103d5a0f6ec10fcb46187c6c5c8', 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', 1);
INSERT INTO public.profile VALUES ('abc123', 'def456', 'published', '[]', 0, 'GPU-11111111-2222-3333-4444-555555555555', '9c1567b9703b464b', '10de:2335@9.0', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132},"provenance":{"host":"lab-7","max_sm_clock_hz":1980000000,"name":"NVIDIA H200"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"GPU-11111111-2222-3333-4444-555555555555"}', '2026-11-30T12:00:00.250000+00:00', '\x78dabd92dd6ec3200c85df856b3441d6a53faf12451105b74525800ce9d6557df719d2767fd22e7783c4e76373729c0bdb051c55669b67ce9c4d39b14dd7899e77b2ef390b31dbe0895d980e637450ae435caf87a2f39373bc1ca484b78cea17ddd99cc110dc299780d7937074ca13145cd22565e5dcafce6c47a8503c0921793dfbebdc5af0856d953e82a7e1ec08e8c1315e5144486942609b8c1370a60f933f0edb73066aab2fdc9081a4d1c61cf0b3f0f8469a1a832b3347f536ecd19a61eb823e92b4299611d43844b4016d3eb38d20c3076286ea52340bce4e0aadf2942b7b5518d9957f356c2c82ceff657896fee979963c3c97ebb5ac264ca88b8dae6c446d1dccd16b702e3d16a8033da46e26ac714026e62f9cd1a13144e0640d780df3b083add9f8e0a15ac6bd25296d99d21d41953ccc3d836e21d62d6f9752ac56eda2ff2240e5f75521b96c9f57df6ac9becfa5b28e46ac97f2a5a17a6d19c0dcfa0a997cf9d9c8cd6eaa0196ce4f059762b17a59b63fe34819e290ee595d3f0052a41ca1', '12a0ed3403b0595e7565ad2aa44d000096596cbd03cb138dcfbaf019a4a23e34', 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', 3);
INSERT INTO public.profile VALUES ('fff', 'eee', 'published', '[]', 1, 'sim:h200', 'sim-9c1567b9703b464b', 'sim-10de:2335@9.0', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132},"provenance":{"host":"","max_sm_clock_hz":null,"name":"NVIDIA H200 (simulated)"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"sim:h200"}', '2026-11-30T12:00:00.250000+00:00', '\x78dabd92dd6ec3200c85df856b3441d6a53faf12451105b74525800ce9d6557df719d2767fd22e7783c4e76373729c0bdb051c55669b67ce9c4d39b14dd7899e77b2ef390b31dbe0895d980e637450ae435caf87a2f39373bc1ca484b78cea17ddd99cc110dc299780d7937074ca13145cd22565e5dcafce6c47a8503c0921793dfbebdc5af0856d953e82a7e1ec08e8c1315e5144486942609b8c1370a60f933f0edb73066aab2fdc9081a4d1c61cf0b3f0f8469a1a832b3347f536ecd19a61eb823e92b4299611d43844b4016d3eb38d20c3076286ea52340bce4e0aadf2942b7b5518d9957f356c2c82ceff657896fee979963c3c97ebb5ac264ca88b8dae6c446d1dccd16b702e3d16a8033da46e26ac714026e62f9cd1a13144e0640d780df3b083add9f8e0a15ac6bd25296d99d21d41953ccc3d836e21d62d6f9752ac56eda2ff2240e5f75521b96c9f57df6ac9becfa5b28e46ac97f2a5a17a6d19c0dcfa0a997cf9d9c8cd6eaa0196ce4f059762b17a59b63fe34819e290ee595d3f0052a41ca1', '12a0ed3403b0595e7565ad2aa44d000096596cbd03cb138dcfbaf019a4a23e34', 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', 3);


--
-- Data for Name: sweep; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sweep VALUES ('aa11', 'GPU-11111111-2222-3333-4444-555555555555', '95c25bd72d6bb89a', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":null,"pci_device_id":"10de:2335","pci_subsystem_id":null,"sm_count":132},"provenance":{"host":"lab-7","max_sm_clock_hz":1980000000,"name":"NVIDIA H200"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"GPU-11111111-2222-3333-4444-555555555555"}', 'quick', 7, '{"colocation":["idle"]}', 1, 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', '{"CUDA_DEVICE_ORDER":null}', 3, 'finished', '[]', '2026-11-30T12:00:00.000000+00:00', 12.5, NULL, 'lab-7', NULL, '2026-11-30T12:00:00.000000+00:00');
INSERT INTO public.sweep VALUES ('def456', 'GPU-11111111-2222-3333-4444-555555555555', '9c1567b9703b464b', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132},"provenance":{"host":"lab-7","max_sm_clock_hz":1980000000,"name":"NVIDIA H200"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"GPU-11111111-2222-3333-4444-555555555555"}', 'imported', 0, '{}', 3, 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', '{}', 0, 'finished', '["measured elsewhere: profile abc123 was imported without its blocks"]', '2026-11-30T12:00:00.250000+00:00', 0, NULL, NULL, NULL, '2026-11-30T12:00:00.000000+00:00');
INSERT INTO public.sweep VALUES ('eee', 'sim:h200', 'sim-9c1567b9703b464b', '{"identity":{"compute_capability":[9,0],"confidential":null,"copy_engines":3,"host_cpu":"Some CPU","iommu":false,"max_link":{"generation":5,"width":16},"memory_gib":140,"mig_slice":"","numa_distance":10,"pci_device_id":"10de:2335","pci_subsystem_id":"10de:18bf","sm_count":132},"provenance":{"host":"","max_sm_clock_hz":null,"name":"NVIDIA H200 (simulated)"},"staleness":{"cuda":"13.0","driver":"580.1","host_kernel":"6.1","trained_link":{"generation":5,"width":16}},"uuid":"sim:h200"}', 'imported', 0, '{}', 3, 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk', '{}', 0, 'finished', '["measured elsewhere: profile fff was imported without its blocks"]', '2026-11-30T12:00:00.250000+00:00', 0, NULL, NULL, NULL, '2026-11-30T12:00:00.000000+00:00');


--
-- Name: block_block_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.block_block_id_seq', 3, true);


--
-- Name: cell_cell_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.cell_cell_id_seq', 4, true);


--
-- Name: evidence_evidence_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.evidence_evidence_id_seq', 5, true);


--
-- Name: fit_fit_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.fit_fit_id_seq', 4, true);


--
-- Name: measurement_measurement_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.measurement_measurement_id_seq', 20, true);


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: block pk_block; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.block
    ADD CONSTRAINT pk_block PRIMARY KEY (block_id);


--
-- Name: board pk_board; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.board
    ADD CONSTRAINT pk_board PRIMARY KEY (uuid);


--
-- Name: cell pk_cell; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell
    ADD CONSTRAINT pk_cell PRIMARY KEY (cell_id);


--
-- Name: device pk_device; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.device
    ADD CONSTRAINT pk_device PRIMARY KEY (class_id);


--
-- Name: evidence pk_evidence; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.evidence
    ADD CONSTRAINT pk_evidence PRIMARY KEY (evidence_id);


--
-- Name: fit pk_fit; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.fit
    ADD CONSTRAINT pk_fit PRIMARY KEY (fit_id);


--
-- Name: measurement pk_measurement; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.measurement
    ADD CONSTRAINT pk_measurement PRIMARY KEY (measurement_id);


--
-- Name: profile pk_profile; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT pk_profile PRIMARY KEY (profile_id);


--
-- Name: sweep pk_sweep; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sweep
    ADD CONSTRAINT pk_sweep PRIMARY KEY (sweep_id);


--
-- Name: block uq_block_sweep_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.block
    ADD CONSTRAINT uq_block_sweep_id_key UNIQUE (sweep_id, key);


--
-- Name: cell uq_cell_block_id_name; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell
    ADD CONSTRAINT uq_cell_block_id_name UNIQUE (block_id, name);


--
-- Name: cell uq_cell_block_id_position; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell
    ADD CONSTRAINT uq_cell_block_id_position UNIQUE (block_id, "position");


--
-- Name: evidence uq_evidence_profile_id_cell_id; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.evidence
    ADD CONSTRAINT uq_evidence_profile_id_cell_id UNIQUE (profile_id, cell_id);


--
-- Name: measurement uq_measurement_cell_id_metric; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.measurement
    ADD CONSTRAINT uq_measurement_cell_id_metric UNIQUE (cell_id, metric);


--
-- Name: ix_board_class_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_board_class_id ON public.board USING btree (class_id);


--
-- Name: ix_evidence_cell_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_evidence_cell_id ON public.evidence USING btree (cell_id);


--
-- Name: ix_fit_profile_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_fit_profile_id ON public.fit USING btree (profile_id);


--
-- Name: ix_profile_board_uuid; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_profile_board_uuid ON public.profile USING btree (board_uuid);


--
-- Name: ix_profile_class_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_profile_class_id ON public.profile USING btree (class_id);


--
-- Name: ix_profile_family_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_profile_family_id ON public.profile USING btree (family_id);


--
-- Name: ix_profile_sweep_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_profile_sweep_id ON public.profile USING btree (sweep_id);


--
-- Name: ix_sweep_board_uuid; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_sweep_board_uuid ON public.sweep USING btree (board_uuid);


--
-- Name: ix_sweep_class_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_sweep_class_id ON public.sweep USING btree (class_id);


--
-- Name: block fk_block_sweep_id_sweep; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.block
    ADD CONSTRAINT fk_block_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(sweep_id) ON DELETE CASCADE;


--
-- Name: board fk_board_class_id_device; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.board
    ADD CONSTRAINT fk_board_class_id_device FOREIGN KEY (class_id) REFERENCES public.device(class_id);


--
-- Name: cell fk_cell_block_id_block; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell
    ADD CONSTRAINT fk_cell_block_id_block FOREIGN KEY (block_id) REFERENCES public.block(block_id) ON DELETE CASCADE;


--
-- Name: evidence fk_evidence_cell_id_cell; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.evidence
    ADD CONSTRAINT fk_evidence_cell_id_cell FOREIGN KEY (cell_id) REFERENCES public.cell(cell_id);


--
-- Name: evidence fk_evidence_profile_id_profile; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.evidence
    ADD CONSTRAINT fk_evidence_profile_id_profile FOREIGN KEY (profile_id) REFERENCES public.profile(profile_id) ON DELETE CASCADE;


--
-- Name: fit fk_fit_profile_id_profile; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.fit
    ADD CONSTRAINT fk_fit_profile_id_profile FOREIGN KEY (profile_id) REFERENCES public.profile(profile_id) ON DELETE CASCADE;


--
-- Name: measurement fk_measurement_cell_id_cell; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.measurement
    ADD CONSTRAINT fk_measurement_cell_id_cell FOREIGN KEY (cell_id) REFERENCES public.cell(cell_id) ON DELETE CASCADE;


--
-- Name: profile fk_profile_board_uuid_board; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT fk_profile_board_uuid_board FOREIGN KEY (board_uuid) REFERENCES public.board(uuid);


--
-- Name: profile fk_profile_class_id_device; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT fk_profile_class_id_device FOREIGN KEY (class_id) REFERENCES public.device(class_id);


--
-- Name: profile fk_profile_sweep_id_sweep; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT fk_profile_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(sweep_id);


--
-- Name: sweep fk_sweep_board_uuid_board; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sweep
    ADD CONSTRAINT fk_sweep_board_uuid_board FOREIGN KEY (board_uuid) REFERENCES public.board(uuid);


--
-- Name: sweep fk_sweep_class_id_device; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sweep
    ADD CONSTRAINT fk_sweep_class_id_device FOREIGN KEY (class_id) REFERENCES public.device(class_id);


--
-- PostgreSQL database dump complete
--

\unrestrict zI6lb47tG46QA96lsa4SU1PQIO09yRaaFu8kbttVRstU75ld9JtUXD8DylcbXAo

