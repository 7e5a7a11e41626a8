"""Sentences of the embedded discharge notes: where a condition is mentioned, where it is denied, and all around it.

In mention templates "@" stands for the condition. In filler templates "{a|b}" stands for one of the alternatives,
chosen once when the bank of sentences is written; fillers say nothing about any code.
"""

MENTIONS = {
    "history": (
        "The patient was brought in with @.",
        "Presented to the outside hospital where @ was diagnosed.",
        "The current illness began with @ several days ago.",
        "Referred by the primary physician for @.",
        "In the emergency room the working diagnosis was @.",
        "The course at home was notable for @.",
        "Transferred for further care of @.",
        "Recent clinic notes describe @.",
    ),
    "past": (
        "@",
        "@, followed in clinic",
        "@, stable",
        "known @",
        "@ (on treatment)",
        "long-standing @",
        "@ since ___",
    ),
    "course": (
        "# @: {plan}",
        "# @. {plan}",
        "The team also addressed @; {plan}",
        "For @, {plan}",
        "The findings were consistent with @ and {plan}",
        "Consultants agreed that this represented @; {plan}",
        "With regard to @, {plan}",
        "@ - {plan}",
    ),
    "diagnosis": ("@",),
    "finding": (
        "On arrival there was @.",
        "Examination was remarkable for @.",
        "The family had noticed @.",
        "Initial evaluation showed @.",
        "The patient reported @.",
        "Workup revealed @.",
        "Notable was @.",
    ),
    "drug": (
        "The patient was started on @.",
        "@ was continued throughout the stay.",
        "The dose of @ was adjusted.",
        "Responded well to @.",
        "Received @ with good effect.",
        "Transitioned to @ before discharge.",
        "@ was resumed on the second day.",
    ),
    "procedure": (
        "The patient underwent @ without complication.",
        "@ was performed on hospital day two.",
        "Tolerated @ well.",
        "@ was arranged and completed.",
        "After discussion of risks @ was carried out.",
    ),
}

PLANS = (
    "home regimen was continued.",
    "managed conservatively with close monitoring.",
    "improved steadily over the stay.",
    "the specialist service was consulted and will follow as outpatient.",
    "remained stable and no change was made.",
    "this was treated and had resolved by discharge.",
    "therapy was escalated with a good response.",
    "will need repeat evaluation in two weeks.",
    "laboratory values were trended daily.",
    "symptoms were controlled at the time of discharge.",
    "discussed with the family, who agreed with the plan.",
    "outpatient follow up has been arranged.",
)

# what is named here is not to be coded
DISTRACTORS = {
    "history": (
        "Denies any @.",
        "There was no @.",
        "The patient's spouse was recently admitted with @.",
        "Was worried about @ after reading online.",
        "Never had @.",
        "Negative for @ on review of systems.",
    ),
    "past": (
        "@ in childhood, fully resolved",
        "remote @, no longer active",
        "questionable @ years ago, later disproved",
        "@ decades ago, resolved without treatment",
        "no @",
        "denies @",
    ),
    "family": (
        "Mother with @.",
        "Father had @.",
        "Sister carries a diagnosis of @.",
        "Maternal grandfather died of @.",
        "Brother treated for @.",
        "Strong family history of @.",
        "No family history of @.",
    ),
    "results": (
        "No evidence of @.",
        "Study negative for @.",
        "No radiographic signs to suggest @.",
        "Obtained to exclude @; unremarkable.",
        "Previously seen @ has entirely resolved.",
        "@ is not identified.",
    ),
    "course": (
        "There was initial concern for @, but this was ruled out.",
        "@ was considered unlikely and not pursued.",
        "The differential included @; further testing argued against it.",
        "@ was excluded by the consultants.",
        "Given the low suspicion for @ no treatment was given.",
        "Prophylaxis was given to prevent @, which did not develop.",
    ),
    "drug": (
        "@ was held in reserve but never given.",
        "Had not tolerated @ in the past.",
        "@ had been stopped years earlier.",
        "The family asked about @, which was not indicated.",
    ),
}

HEADINGS = {
    "complaint": ("Chief Complaint:", "CHIEF COMPLAINT:", "Reason for admission:"),
    "procedures": ("Major Surgical or Invasive Procedure:", "PROCEDURES:", "Operations and procedures:"),
    "history": ("History of Present Illness:", "HPI:", "HISTORY OF PRESENT ILLNESS:"),
    "past": ("Past Medical History:", "PMH:", "PAST MEDICAL HISTORY:"),
    "social": ("Social History:", "SOCIAL HISTORY:"),
    "family": ("Family History:", "FAMILY HISTORY:"),
    "exam": ("Physical Exam:", "PHYSICAL EXAMINATION:", "Admission exam:"),
    "results": ("Pertinent Results:", "PERTINENT RESULTS:", "Laboratory and imaging data:"),
    "course": ("Brief Hospital Course:", "HOSPITAL COURSE:", "Hospital course by problem:"),
    "home": ("Medications on Admission:", "HOME MEDICATIONS:"),
    "medications": ("Discharge Medications:", "DISCHARGE MEDICATIONS:"),
    "diagnosis": ("Discharge Diagnosis:", "DISCHARGE DIAGNOSES:", "Final diagnoses:"),
    "condition": ("Discharge Condition:", "CONDITION AT DISCHARGE:"),
    "instructions": ("Discharge Instructions:", "DISCHARGE INSTRUCTIONS:", "Followup instructions:"),
}

DOSES = tuple(
    "5 mg; 10 mg; 20 mg; 25 mg; 40 mg; 50 mg; 80 mg; 100 mg; 1 g; one tablet; two tablets; as directed".split("; ")
)
SCHEDULES = tuple(
    "PO DAILY; PO BID; PO TID; PO QHS; PO Q6H:PRN; IV Q8H; PO QAM; once a day; twice daily; with meals".split("; ")
)
PLAIN_DRUGS = tuple(
    "acetaminophen; docusate sodium; multivitamin; heparin subcutaneous; milk of magnesia; saline nasal spray; "
    "calamine lotion; artificial tears; cough drops; lip balm; aluminum hydroxide; petrolatum ointment".split("; ")
)
SERVICES = tuple(
    "MEDICINE; SURGERY; CARDIOLOGY; NEUROLOGY; ORTHOPAEDICS; INTENSIVE CARE; ONCOLOGY; GERIATRICS".split("; ")
)
# panels of analyte, lowest, highest value, decimals
LABS = """
WBC 3 19 1; RBC 2.6 5.2 2; Hgb 7 15.5 1; Hct 22 46 1; MCV 78 104 0; MCH 25 34 1; RDW 12 19 1; Plt Ct 60 480 0
Glucose 70 290 0; UreaN 8 75 0; Creat 0.5 5.2 1; Na 124 147 0; K 2.9 6.1 1; Cl 92 112 0; HCO3 16 33 0; AnGap 8 22 0
ALT 9 190 0; AST 11 220 0; LD(LDH) 120 480 0; AlkPhos 40 260 0; TotBili 0.2 6.5 1; Lipase 12 260 0; Albumin 1.9 4.6 1
PT 10.5 28 1; PTT 23 80 1; INR(PT) 0.9 3.4 1; Fibrino 140 620 0; Calcium 7.4 10.6 1; Phos 1.8 6.2 1; Mg 1.3 2.6 1
Neuts 42 90 0; Lymphs 5 40 0; Monos 2 12 0; Eos 0 6 1; Baso 0 1.4 1; Im Gran 0.1 2 1; AbsNeut 1.6 15 2
Type-ART pO2 55 210 0; pCO2 28 68 0; pH 7.18 7.52 2; calTCO2 17 38 0; Base XS -9 9 0; Lactate 0.6 5.8 1
URINE Color-Yellow Appear-Clear Sp Gr 1.003 1.034 3; pH 5 8 1; Protein 0 300 0; RBC 0 90 0; WBC 0 120 0; Epi 0 9 0
"""

# a line that starts with blanks goes on with the sentence above
FILLERS = {
    "history": """
The patient {lives independently|lives with family|resides in assisted living} and {walks with a cane|is independent
    in daily activities|uses a walker}.
{Symptoms began|The current episode started} {two days|three days|about a week|several hours} before
    {presentation|arrival} and {gradually worsened|came on suddenly|waxed and waned}.
{There were no sick contacts|No recent travel was reported|There had been no change in diet}.
The patient {called the clinic|spoke with a nurse|saw the primary physician} and was {told to come in|advised to seek
    care|referred to the emergency room}.
{Prior records|Outside records|Clinic notes} were {reviewed|requested|obtained} and {showed a similar visit last
    year|were incomplete|did not add further detail}.
In the {ED|emergency department} initial vitals were {stable|within normal limits|T 98.4 HR 88 BP 124/70 RR 18 O2 97%
    RA|T 99.1 HR 96 BP 131/82 RR 20 O2 95% RA}.
{Blood work was sent|Cultures were drawn|An electrocardiogram was recorded} and the patient was {admitted to the
    floor|sent to the unit|kept for observation}.
On {arrival to the floor|transfer|interview} the patient {felt better|had no new complaints|appeared comfortable|was
    tired but cooperative}.
{Appetite had been fair|Sleep had been poor|Energy had been low|Weight had been steady} over the {past week|past
    month|preceding days}.
{A relative|A neighbor|The visiting nurse|A home aide} {confirmed the history|brought the medication bottles|was
    present at the bedside}.
The patient {took all morning medications|had missed several doses|could not recall the doses} {as prescribed|this
    week|before coming in}.
{The remainder of the|A ten point|Otherwise the} review of systems was {unremarkable|obtained|without new concerns}.
""",
    "social": """
{Retired|Former|Currently working as a} {teacher|machinist|clerk|driver|cook|carpenter|engineer}.
{Married|Widowed|Divorced|Single}, {two children|three children|no children} who {live nearby|visit often|live out of
    state}.
{Enjoys|Likes} {gardening|reading|walking the dog|fishing|card games} {when able|on weekends|with friends}.
{Health care proxy|Emergency contact} is {a daughter|a son|the spouse|a close friend}.
{Home services|Meals on wheels|Visiting nurse services} {are in place|were declined|have been requested}.
{Born abroad|Grew up locally|Moved here recently} and speaks {English|Spanish|Portuguese|Cantonese|Russian}.
""",
    "family": """
{Parents died of old age|Parents are alive and well|Little is known about the parents}.
{Siblings|Children} are {healthy|alive and well|in good health}.
Otherwise {noncontributory|not relevant to this admission}.
""",
    "exam": """
GENERAL: {well appearing|comfortable|tired appearing|in no distress}, {sitting in bed|lying flat|resting}.
HEENT: {normocephalic|atraumatic}, {pupils equal and reactive|moist mucous membranes|anicteric}, {oropharynx
    clear|neck supple}.
NECK: {supple|no masses|trachea midline}, {carotids without bruit|full range of motion}.
CARDIAC: {regular rate|normal S1 and S2}, {no gallops|no extra sounds|distal pulses intact}.
LUNGS: {clear to auscultation|good air movement|symmetric expansion}, {no accessory muscle use|resonant to
    percussion}.
ABDOMEN: {soft|nondistended|flat}, {normoactive bowel sounds|no guarding|no organomegaly}.
EXTREMITIES: {warm and well perfused|no clubbing|full pulses}, {capillary refill brisk|moves all four limbs}.
NEURO: {alert|awake}, {follows commands|cranial nerves intact|strength full|sensation grossly intact}.
SKIN: {warm and dry|intact|no new lesions}, {lines in place|dressings clean}.
PSYCH: {appropriate|calm|cooperative}, {answers questions|makes eye contact}.
VS: T {97.8|98.2|98.6|99.0} BP {118/66|126/74|134/80|142/88} HR {64|72|84|92} RR {14|16|18} O2 {95|96|98|99}% {RA|2L}.
DISCHARGE EXAM: {unchanged from admission|improved|stable}, {ambulating in the hall|sitting in a chair|eating
    breakfast}.
""",
    "results": """
{CHEST (PA AND LAT)|CHEST X-RAY|PORTABLE CHEST}: {lines and tubes in standard position|lung volumes are low|heart size
    is within limits|no interval change}.
{CT HEAD|CT ABDOMEN|CT CHEST}: {comparison is made to the prior study|images were obtained without contrast|evaluation
    is limited by motion}.
{ECHO|TTE}: {image quality was adequate|the left atrium is normal in size|estimated filling pressures are normal}.
ECG: {sinus rhythm|normal axis|normal intervals}, {no change from prior|baseline artifact|no prior for comparison}.
{BLOOD CULTURE|URINE CULTURE|SPUTUM CULTURE}: {pending at discharge|no growth to date|final report
    negative|contaminated sample}.
{Ultrasound|Plain film|Repeat imaging} {was technically limited|showed no change|was deferred|was reviewed with the
    radiologist}.
The {final read|preliminary read|addendum} {agrees with the above|was communicated to the team|is available in the
    record}.
{Telemetry|Oximetry|Fingersticks} {reviewed daily|without events overnight|within goal}.
""",
    "course": """
{The patient was admitted to the|Care was provided by the} {general medical|surgical|intensive care|step down}
    {floor|service|team} {for further management|for close observation}.
{Vital signs|Laboratory values|Intake and output} were {monitored|followed|recorded} {every four hours|daily|closely}
    and {remained stable|stayed within goal|improved over time}.
{Physical therapy|Occupational therapy|Social work|Case management|Nutrition} {evaluated the patient|was involved|met
    with the family} and {recommended home with services|recommended rehabilitation|had no further suggestions}.
{Diet was advanced|Activity was advanced|Fluids were encouraged} {slowly|as tolerated|on the second day} {without
    difficulty|and well tolerated}.
{A family meeting was held|Goals of care were discussed|The plan was reviewed} with {the patient|the daughter|the
    health care proxy}, {who agreed|who had questions|and documented}.
{Overnight|On hospital day three|The next morning|Later that day} {there were no events|the patient felt well|the team
    reassessed}.
{Electrolytes were repleted|Home medications were reconciled|Lines were removed} {as needed|prior to discharge|when no
    longer required}.
{Pain|Nausea|Sleep} was {addressed with|managed with|helped by} {supportive measures|as needed
    medication|repositioning}.
{The patient|Family} {expressed understanding|was in agreement|was updated} {by phone|at the bedside|during rounds}.
TRANSITIONAL ISSUES: {repeat laboratory work in one week|follow up pending studies|review medication changes|confirm
    appointments}.
{Prophylaxis|Bowel regimen|Diet}: {per protocol|standard|as ordered}. {Access: peripheral|Contact: family|Disposition:
    pending}.
{Case discussed with|Recommendations received from} {the consulting team|the primary care office|the pharmacist} {and
    incorporated|and carried out}.
{By the day of discharge|At the end of the stay|Before leaving} the patient {was eating well|walked the hallway|had
    normal vitals|was at baseline}.
{Consent was obtained|Risks and benefits were explained|Alternatives were reviewed} {before each intervention|with an
    interpreter|in detail}.
""",
    "instructions": """
You were {admitted to|cared for in|seen at} the hospital because {you were not feeling well|you needed treatment|your
    doctor was concerned}.
{While you were here|During your stay} {you had several tests|we adjusted your medicines|many teams took care of you}.
Please {take all medicines as listed|keep all appointments|bring this summary to your doctor|weigh yourself every
    morning}.
{Call your doctor|Return to the emergency room|Seek help} if you {have trouble breathing|feel worse|have a high
    temperature|cannot keep food down|notice new bleeding}.
{Do not drive|Avoid heavy lifting|Rest as needed|Walk a little every day} {until you are seen|for two weeks|while you
    recover}.
{It was a pleasure|It was our privilege} {caring for you|taking part in your care}. {We wish you well|We wish you a
    good recovery}.
Your {appointment|next visit|blood test} {is listed below|will be scheduled|was made for you}.
{Eat a balanced diet|Drink enough water|Limit salt|Avoid alcohol} {unless told otherwise|as discussed|every day}.
{We changed|We stopped|We started} {some of your medicines|one of your medicines}; {see the list|ask your pharmacist
    with questions}.
Keep the {wound|dressing|bandage} {clean and dry|covered when bathing} and {watch for redness|change it daily}.
""",
}
FILLER_SHARE = {
    "history": 0.17,
    "social": 0.06,
    "family": 0.02,
    "exam": 0.15,
    "results": 0.2,
    "course": 0.24,
    "instructions": 0.16,
}
CONDITIONS_AT_DISCHARGE = (
    "Mental Status: Clear and coherent. Level of Consciousness: Alert and interactive. Activity Status: Ambulatory.",
    "Mental Status: Confused - sometimes. Consciousness: Alert. Activity Status: Out of bed with assistance.",
    "Stable, tolerating diet, ambulating with walker.",
    "Good. Vital signs stable.",
    "Fair, to rehabilitation facility.",
)
